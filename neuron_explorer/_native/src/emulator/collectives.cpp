// Collective communication of the emulated device: every c10d operator runs on host memory,
// over the group's CPU backend. The tensors are shown to it as CPU tensors over the same
// bytes; averages, which gloo has not, are sums that are divided when the work is done.
#if __has_include(<torch/csrc/distributed/c10d/ProcessGroup.hpp>)

#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <torch/library.h>

#include <algorithm>
#include <memory>
#include <mutex>

#include "device.h"

namespace nx {

using torch::jit::Stack;

// A CPU tensor over the bytes of `t`, which it keeps alive; with `flat` in one dimension.
static at::Tensor on_host(const at::Tensor& t, bool flat) {
  TORCH_CHECK(!t.is_conj() && !t.is_neg(), "neuron: collectives take no lazily conjugated or negated tensors");
  TORCH_CHECK(t.layout() == at::kStrided, "neuron: collectives take dense tensors, not ", t.layout());
  // gloo moves bytes without looking at strides: what has gaps would come back wrong.
  TORCH_CHECK(t.is_non_overlapping_and_dense(), "neuron: tensors of a collective must be contiguous");
  void* data = t.numel() > 0 ? t.mutable_data_ptr() : nullptr;
  auto options = at::TensorOptions().dtype(t.dtype()).device(at::kCPU);
  if (flat) return at::from_blob(data, {t.numel()}, [t](void*) {}, options);
  return at::from_blob(data, t.sizes(), t.strides(), [t](void*) {}, options);
}

// The work of the CPU's backend, with the device's tensors as its result.
class HostWork final : public c10d::Work {
 public:
  HostWork(c10::intrusive_ptr<c10d::Work> inner, std::vector<at::Tensor> results, std::vector<at::Tensor> divided, int64_t by,
           std::shared_ptr<at::RecordFunction> flight)
      : Work(-1, inner->retrieveOpType()), inner_(std::move(inner)), results_(std::move(results)), divided_(std::move(divided)), by_(by), flight_(std::move(flight)) {}

  bool isCompleted() override { return inner_->isCompleted(); }
  bool isSuccess() const override { return inner_->isSuccess(); }
  std::exception_ptr exception() const override { return inner_->exception(); }
  int sourceRank() const override { return inner_->sourceRank(); }
  uint64_t getSequencenumber() const override { return inner_->getSequencenumber(); }
  std::vector<at::Tensor> result() override {
    divide();
    return results_;
  }
  void synchronize() override { wait(); }
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override {
    bool done = inner_->wait(timeout);
    {
      std::lock_guard<std::mutex> lock(divide_mutex_);
      flight_.reset();
    }
    divide();
    return done;
  }
  void abort() override { inner_->abort(); }

  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    auto future = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
    // The work must live until the callback ran.
    auto self = c10::intrusive_ptr<HostWork>::unsafe_reclaim_from_nonowning(this);
    inner_->getFuture()->addCallback([self, future](c10::ivalue::Future& done) {
      if (done.hasError()) {
        future->setError(done.exception_ptr());
        return;
      }
      self->divide();
      future->markCompleted(c10::IValue(self->results_));
    });
    return future;
  }

 private:
  void divide() {
    std::lock_guard<std::mutex> lock(divide_mutex_);
    if (divided_.empty()) return;
    at::DisableRecordFunctionGuard unrecorded;
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    for (at::Tensor& t : divided_) {
      if (at::isIntegralType(t.scalar_type(), true)) t.div_(by_, "trunc");
      else t.div_(by_);
    }
    divided_.clear();
  }

  c10::intrusive_ptr<c10d::Work> inner_;
  std::vector<at::Tensor> results_;
  std::mutex divide_mutex_;
  std::vector<at::Tensor> divided_;
  int64_t by_;
  std::shared_ptr<at::RecordFunction> flight_;  // ends with the wait, where gloo tells of no completion
};

// The arguments of one call, and the device tensors behind them.
struct Shown {
  bool flat = false;
  std::vector<std::pair<at::Tensor, at::Tensor>> pairs;  // host, device

  at::Tensor host(const at::Tensor& t) {
    if (!t.defined() || t.device().type() != kNeuron) return t;
    for (auto& p : pairs)
      if (p.second.is_same(t)) return p.first;
    pairs.emplace_back(on_host(t, flat), t);
    return pairs.back().first;
  }
  at::Tensor device(const at::Tensor& t) {
    for (auto& p : pairs)
      if (p.first.is_same(t)) return p.second;
    return t;
  }
};

template <typename F>
static c10::IValue each(const c10::IValue& v, F f) {
  if (v.isTensor()) return f(v.toTensor());
  if (v.isTensorList()) {
    c10::List<at::Tensor> out;
    for (const c10::IValue& e : v.toListRef()) out.push_back(f(e.toTensor()));
    return out;
  }
  if (v.isList()) {
    auto list = v.toList();
    c10::impl::GenericList out(list.elementType());
    for (const c10::IValue& e : v.toListRef()) out.push_back(each(e, f));
    return out;
  }
  return v;
}

static void flatten(const c10::IValue& v, std::vector<at::Tensor>& out) {
  if (v.isTensor()) out.push_back(v.toTensor());
  else if (v.isList())
    for (const c10::IValue& e : v.toListRef()) flatten(e, out);
}

// A range from the call to the completion, as gloo reports its own: that one is not observed, because what
// stands for the device is not. Null for what is not reported.
static std::shared_ptr<at::RecordFunction> begin_flight(const std::string& called, const std::vector<at::Tensor>& hosts) {
  std::string name = called.substr(called.find("::") + 2);
  name.erase(0, name.find_first_not_of('_'));
  if (name.rfind("send", 0) == 0 || name.rfind("recv", 0) == 0) return nullptr;
  for (const char* word : {"all_reduce", "all_gather", "all_to_all"}) {
    std::string joined(word);
    joined.erase(std::remove(joined.begin(), joined.end(), '_'), joined.end());
    if (name.rfind(joined, 0) == 0) name = word;
  }
  while (!name.empty() && name.back() == '_') name.pop_back();
  auto flight = std::make_shared<at::RecordFunction>(at::RecordScope::USER_SCOPE);
  if (!flight->isActive()) return nullptr;
  flight->_setAsync();
  std::vector<c10::IValue> inputs(hosts.begin(), hosts.end());
  flight->before("gloo:" + name, c10::ArrayRef<const c10::IValue>(inputs.data(), inputs.size()));
  return flight;
}

static void collective(const c10::OperatorHandle& op, Stack* stack) {
  check_usable();
  const auto& schema = op.schema();
  size_t count = schema.arguments().size(), first = stack->size() - count;
  Shown shown;
  // Into one tensor only the number of elements counts on a device; gloo compares shapes too.
  const std::string& called = schema.name();
  shown.flat = called == "c10d::_allgather_base_" || called == "c10d::_reduce_scatter_base_";
  int64_t ranks = 1;
  bool average = false;
  Stack inner;
  for (size_t i = 0; i < count; ++i) {
    const c10::IValue& v = (*stack)[first + i];
    const std::string& name = schema.arguments()[i].name();
    if (name == "process_group") {
      ranks = v.toCustomClass<c10d::ProcessGroup>()->getSize();
      inner.push_back(v);
    } else if (name == "reduce_op") {
      average = v.toCustomClass<c10d::ReduceOp>()->op_ == c10d::ReduceOp::AVG;
      inner.push_back(average ? c10::IValue(c10::make_intrusive<c10d::ReduceOp>(c10d::ReduceOp::SUM)) : v);
    } else {
      inner.push_back(each(v, [&](const at::Tensor& t) { return shown.host(t); }));
    }
  }
  // What is written to comes first; a call that sends has nothing to show.
  std::vector<at::Tensor> results, hosts;
  flatten((*stack)[first], results);
  flatten(inner[0], hosts);
  auto flight = begin_flight(called, hosts);
  {
    at::DisableRecordFunctionGuard unrecorded;
    op.callBoxed(&inner);
  }
  stack->resize(first);
  for (const c10::IValue& v : inner) {
    if (v.isCustomClass()) {
      if (flight != nullptr) {
        try {
          v.toCustomClass<c10d::Work>()->getFuture()->addCallback([flight](c10::ivalue::Future&) { flight->end(); });
          flight = nullptr;
        } catch (const c10::Error&) {
        }  // not every operation of gloo has a future: then its wait is the end
      }
      auto work = c10::make_intrusive<HostWork>(v.toCustomClass<c10d::Work>(), results,
                                                average ? hosts : std::vector<at::Tensor>(), ranks, std::move(flight));
      stack->push_back(c10::IValue(c10::static_intrusive_pointer_cast<c10d::Work>(std::move(work))));
    } else {
      stack->push_back(each(v, [&](const at::Tensor& t) { return shown.device(t); }));
    }
  }
}

// torch registers kernels of its own for this key, and says so loudly when they are replaced.
struct Silent final : c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

static bool register_collectives() {
  static Silent silent;
  c10::WarningUtils::WarningHandlerGuard quiet(&silent);
  static torch::Library library(torch::Library::IMPL, "c10d", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  for (const char* name :
       {"_allgather_base_", "_reduce_scatter_base_", "allgather_", "allgather_coalesced_", "allgather_into_tensor_coalesced_",
        "allreduce_", "allreduce_coalesced_", "alltoall_", "alltoall_base_", "barrier", "broadcast_", "gather_", "recv_",
        "recv_any_source_", "reduce_", "reduce_scatter_", "reduce_scatter_tensor_coalesced_", "scatter_", "send"}) {
    if (c10::Dispatcher::singleton().findSchema({std::string("c10d::") + name, ""}))
      library.impl(name, torch::CppFunction::makeFromBoxedFunction<&collective>());
  }
  return true;
}

static const bool g_registered = register_collectives();

}  // namespace nx

#endif
