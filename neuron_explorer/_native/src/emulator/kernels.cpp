// Every operator runs the CPU's kernel on the device's memory: its tensors are shown to the
// CPU as CPU tensors over the same bytes, and what comes back is shown as the device's again.
// An operator without a native kernel copies its arguments to host memory and its results
// back, as the device does, and is counted.
#include "kernels.h"

#include <ATen/ATen.h>
#include <ATen/ops/native_group_norm_native.h>
#include <ATen/record_function.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>

#include <unordered_map>

#include "counts.h"
#include "device.h"
#include "host_view.h"

namespace nx {

using torch::jit::Stack;

enum class Way { kNative, kMetadata, kFallback };

// ---------------------------------------------------------------- facts about an operator

struct OpInfo {
  c10::OperatorName id{"", ""};
  std::string name;      // aten::add.Tensor
  bool mixes = false;    // takes host tensors beside device tensors, as on CUDA
  bool writes = false;   // to an argument
  bool is_view = false;  // returns a view of an argument
  bool is_copy = false;
  bool seeded = false;  // draws random numbers
  bool reduces = false;  // to a scalar, by way of a result of the full size
  int pin = -1;         // positions of arguments
  int generator = -1;
  std::vector<bool> written;
};

static OpInfo make_info(const c10::OperatorHandle& op) {
  static const std::unordered_set<std::string> mixing = {
      "aten::index.Tensor", "aten::index.Tensor_out", "aten::_index_put_impl_", "aten::index_put", "aten::index_put_",
      "aten::_unsafe_index.Tensor", "aten::_unsafe_index_put", "aten::set_.source_Storage_storage_offset"};
  static const std::unordered_set<std::string> reducing = {"aten::mse_loss.out", "aten::smooth_l1_loss.out"};
  OpInfo info;
  info.id = op.operator_name();
  info.name = info.id.overload_name.empty() ? info.id.name : info.id.name + "." + info.id.overload_name;
  info.mixes = mixing.count(info.name) != 0;
  info.is_copy = info.id.name == "aten::_copy_from" || info.id.name == "aten::_copy_from_and_resize";
  info.reduces = reducing.count(info.name) != 0;
  info.seeded = op.hasTag(at::Tag::nondeterministic_seeded);
  const auto& arguments = op.schema().arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto* alias = arguments[i].alias_info();
    bool written = alias != nullptr && alias->isWrite();
    info.written.push_back(written);
    info.writes = info.writes || written;
    if (arguments[i].name() == "pin_memory") info.pin = static_cast<int>(i);
    if (arguments[i].name() == "generator") info.generator = static_cast<int>(i);
  }
  for (const auto& r : op.schema().returns())
    if (r.alias_info() != nullptr && !r.alias_info()->isWrite()) info.is_view = true;
  return info;
}

static const OpInfo& info_of(const c10::OperatorHandle& op) {
  thread_local std::unordered_map<const void*, std::unique_ptr<OpInfo>> known;
  auto& slot = known[&op.schema()];
  // An operator of a library that was unloaded may have left its address to another.
  if (!slot || !(slot->id == op.operator_name())) slot = std::make_unique<OpInfo>(make_info(op));
  return *slot;
}

// ---------------------------------------------------------------- arguments and results

static void check_host_tensor(const at::Tensor& t, const HostView& view) {
  if (!t.defined() || is_neuron(t) || t.dim() == 0) return;
  TORCH_CHECK(false, "Expected all tensors to be on the same device, but found at least two devices, ",
              view.has_device() ? view.device().str() : c10::Device(kNeuron, t_device).str(), " and ", t.device().str(), "!");
}

static c10::IValue host_value(const c10::IValue& v, HostView& view, bool mixes, bool written) {
  auto one = [&](const at::Tensor& t) {
    if (!mixes) check_host_tensor(t, view);
    return view.to_host(t, written);
  };
  if (v.isTensor()) return one(v.toTensor());
  if (v.isTensorList()) {
    c10::List<at::Tensor> out;
    auto list = v.toTensorList();
    out.reserve(list.size());
    for (size_t i = 0; i < list.size(); ++i) out.push_back(one(list.get(i)));
    return out;
  }
  if (v.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> out;
    auto list = v.toOptionalTensorList();
    out.reserve(list.size());
    for (size_t i = 0; i < list.size(); ++i) {
      std::optional<at::Tensor> t = list.get(i);
      out.push_back(t.has_value() && t->defined() ? std::optional<at::Tensor>(one(*t)) : t);
    }
    return out;
  }
  if (v.isGenerator()) {
    at::Generator g = v.toGenerator();
    if (g.defined() && g.device().type() == kNeuron) return static_cast<NeuronGenerator*>(g.unsafeGetGeneratorImpl())->cpu;
    TORCH_CHECK(false, "Expected a 'neuron' device type for generator but found '", g.device().type(), "'");
  }
  if (v.isDevice() && v.toDevice().type() == kNeuron) {
    c10::Device d = v.toDevice();
    if (d.has_index()) check_index(d.index());
    view.default_device(d.has_index() ? d : c10::Device(kNeuron, t_device));
    return c10::Device(c10::DeviceType::CPU);
  }
  return v;
}

static c10::IValue device_value(const c10::IValue& v, HostView& view) {
  if (v.isTensor()) return view.to_device(v.toTensor());
  if (v.isTensorList()) {
    c10::List<at::Tensor> out;
    auto list = v.toTensorList();
    for (size_t i = 0; i < list.size(); ++i) out.push_back(view.to_device(list.get(i)));
    return out;
  }
  return v;
}

template <typename F>
static void each_tensor(const c10::IValue& v, F f) {
  if (v.isTensor()) {
    if (v.toTensor().defined()) f(v.toTensor());
  } else if (v.isTensorList() || v.isOptionalTensorList()) {
    for (const c10::IValue& e : v.toListRef())
      if (e.isTensor() && e.toTensor().defined()) f(e.toTensor());
  }
}

static uint64_t bytes_of(const at::Tensor& t) {
  return t.layout() == at::kStrided ? static_cast<uint64_t>(t.numel()) * t.itemsize() : 0;
}

// ---------------------------------------------------------------- random numbers

// Draws of an operator without a generator argument come from the device's generator: it is
// lent to the CPU's default generator for the call.
class LentGenerator {
 public:
  explicit LentGenerator(c10::DeviceIndex device) : device_(device) {
    at::Generator cpu = at::detail::getDefaultCPUGenerator();
    saved_ = cpu.get_state();
    cpu.set_state(at::Tensor(own()->get_state()));
  }
  ~LentGenerator() {
    at::Generator cpu = at::detail::getDefaultCPUGenerator();
    own()->set_state(*cpu.get_state().unsafeGetTensorImpl());
    cpu.set_state(saved_);
  }

 private:
  c10::GeneratorImpl* own() { return default_generator(device_).unsafeGetGeneratorImpl(); }
  c10::DeviceIndex device_;
  at::Tensor saved_;
};

// ---------------------------------------------------------------- the boxed kernel

// The CPU's call is part of the device's operator: not recorded, not cast, no graph of its own.
struct QuietCall {
  at::DisableRecordFunctionGuard unrecorded;
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  c10::impl::ExcludeDispatchKeyGuard uncast{c10::autocast_dispatch_keyset};
};

static void copy_between_devices(Stack* stack, size_t first, size_t count) {
  // One call with two devices: host and device, or two devices of this type.
  c10::ArrayRef<c10::IValue> arguments(stack->data() + first, count);
  at::Tensor source = arguments[0].toTensor(), target = arguments[1].toTensor();
  {
    HostView from(false), to(false);
    QuietCall quiet;
    at::Tensor source_host = source._is_zerotensor() ? source : from.to_host(source);
    at::Tensor target_host = to.to_host(target, true);
    TORCH_CHECK(source.layout() == at::kStrided, "neuron has no ", source.layout(), " tensors, only strided ones");
    if (source._is_zerotensor()) target_host.zero_();
    else target_host.copy_(source_host);
    to.finish();
  }
  stack->resize(first);
  stack->push_back(target);
}

// The work of one call: the arguments on the host, the CPU's kernel, the results on the device.
class Call {
 public:
  Call(const c10::OperatorHandle& op, const OpInfo& info, c10::ArrayRef<c10::IValue> arguments, bool copy, bool reads)
      : op_(op), info_(info), arguments_(arguments), copy_(copy), view_(copy, reads) {
    // A device tensor anywhere decides the device before host tensors are complained about.
    for (const c10::IValue& v : arguments)
      each_tensor(v, [&](const at::Tensor& t) {
        if (is_neuron(t) && !view_.has_device()) view_.see(t.device());
      });
  }

  uint64_t bytes_to_host() const {
    uint64_t bytes = 0;
    for (const c10::IValue& v : arguments_)
      each_tensor(v, [&](const at::Tensor& t) { bytes += is_neuron(t) ? bytes_of(t) : 0; });
    return bytes;
  }

  void to_host() {
    if (info_.mixes && arguments_[0].isTensor())
      TORCH_CHECK(is_neuron(arguments_[0].toTensor()), "indices should be either on cpu or on the same device as the indexed tensor (",
                  arguments_[0].toTensor().device(), ")");
    for (size_t i = 0; i < arguments_.size(); ++i) host_.push_back(host_value(arguments_[i], view_, info_.mixes, info_.written[i]));
    view_.default_device(c10::Device(kNeuron, t_device));
    // The CPU's kernel resizes its result first, and warns of that where it has elements.
    if (info_.reduces && host_.back().isTensor() && host_.back().toTensor().dim() == 0) host_.back().toTensor().resize_({0});
    if (info_.pin >= 0 && host_[info_.pin].isBool()) host_[info_.pin] = false;
    if (info_.generator >= 0 && host_[info_.generator].isNone())
      host_[info_.generator] = static_cast<NeuronGenerator*>(default_generator(view_.device().index()).unsafeGetGeneratorImpl())->cpu;
  }

  void compute() {
    std::optional<LentGenerator> lent;
    if (info_.seeded && info_.generator < 0) lent.emplace(view_.device().index());
    QuietCall quiet;
    results_ = host_;
    try {
      op_.callBoxed(&results_);
    } catch (const c10::Error& e) {
      std::string text = e.what_without_backtrace();
      if (text.find("DefaultCPUAllocator") == std::string::npos) throw;
      // The host ran out of memory before the device did.
      throw c10::OutOfMemoryError({__func__, __FILE__, static_cast<uint32_t>(__LINE__)},
                                  "neuron out of memory: the host has no memory left for the emulated device. " + text);
    }
  }

  uint64_t bytes_to_device() const {
    uint64_t bytes = 0;
    for (size_t i = 0; i < host_.size(); ++i)
      if (info_.written[i]) each_tensor(host_[i], [&](const at::Tensor& t) { bytes += bytes_of(t); });
    for (const c10::IValue& v : results_)
      each_tensor(v, [&](const at::Tensor& t) { bytes += view_.is_argument(t) ? 0 : bytes_of(t); });
    return bytes;
  }

  void to_device() {
    if (info_.writes || copy_) view_.finish();
    for (c10::IValue& v : results_) v = device_value(v, view_);
  }

  Stack& results() { return results_; }

 private:
  const c10::OperatorHandle& op_;
  const OpInfo& info_;
  c10::ArrayRef<c10::IValue> arguments_;
  bool copy_;
  HostView view_;
  Stack host_, results_;
};

// A part of a fallback as a profiler sees it: an event whose only argument is a number of bytes.
struct CopyEvent {
  CopyEvent(const char* name, uint64_t bytes) : event(at::RecordScope::FUNCTION) {
    if (!event.isActive()) return;
    std::vector<c10::IValue> told = {static_cast<int64_t>(bytes)};
    event.before(name, c10::ArrayRef<const c10::IValue>(told.data(), told.size()));
  }
  at::RecordFunction event;
};

static void run(const c10::OperatorHandle& op, Stack* stack, Way way) {
  check_usable();
  const OpInfo& info = info_of(op);
  size_t count = op.schema().arguments().size();
  size_t first = stack->size() - count;
  if (info.is_copy) return copy_between_devices(stack, first, count);
  c10::ArrayRef<c10::IValue> arguments(stack->data() + first, count);
  if (way == Way::kNative) use_artifact(info.name, arguments);
  bool reads = way != Way::kMetadata || info.name == "aten::_local_scalar_dense";
  Call call(op, info, arguments, way == Way::kFallback, reads);
  if (way == Way::kFallback) {
    uint64_t there = call.bytes_to_host(), back = 0;
    {
      CopyEvent event("neuron::copy_to_host", there);
      call.to_host();
    }
    call.compute();
    {
      back = call.bytes_to_device();
      CopyEvent event("neuron::copy_to_device", back);
      call.to_device();
    }
    note_fallback(info.name, there, back);
  } else {
    call.to_host();
    call.compute();
    call.to_device();
  }
  stack->resize(first);
  for (c10::IValue& v : call.results()) stack->push_back(std::move(v));
}

static void native_kernel(const c10::OperatorHandle& op, Stack* stack) { run(op, stack, Way::kNative); }
static void metadata_kernel(const c10::OperatorHandle& op, Stack* stack) { run(op, stack, Way::kMetadata); }

static void fallback_kernel(const c10::OperatorHandle& op, Stack* stack) {
  // A view of copied memory would not be a view.
  if (info_of(op).is_view) return run(op, stack, Way::kMetadata);
  RECORD_USER_SCOPE("neuron_cpu_fallback");
  run(op, stack, Way::kFallback);
}

// Torch's composition takes a view of its input, yet hands every device outside its tree the
// memory format that it was given: channels last has no such view.
static std::tuple<at::Tensor, at::Tensor, at::Tensor> group_norm(const at::Tensor& input, const std::optional<at::Tensor>& weight,
                                                                 const std::optional<at::Tensor>& bias, int64_t n, int64_t c,
                                                                 int64_t hxw, int64_t group, double eps) {
  return at::native::math_group_norm(input.contiguous(), weight, bias, n, c, hxw, group, eps);
}

// ---------------------------------------------------------------- registration

static std::optional<c10::OperatorHandle> find(const std::string& name) {
  size_t dot = name.find('.');
  return c10::Dispatcher::singleton().findSchema(
      {"aten::" + name.substr(0, dot), dot == std::string::npos ? std::string() : name.substr(dot + 1)});
}

void register_kernels(const std::vector<std::string>& native) {
  static std::vector<std::unique_ptr<torch::Library>> libraries;
  auto library = [](const char* space, c10::DispatchKey key) -> torch::Library& {
    libraries.push_back(std::make_unique<torch::Library>(torch::Library::IMPL, space, key, __FILE__, __LINE__));
    return *libraries.back();
  };
  torch::Library& aten = library("aten", c10::DispatchKey::PrivateUse1);
  std::unordered_set<std::string> taken;
  register_own_kernels(aten, taken);
  for (const char* name : {"view", "view.dtype", "as_strided", "_reshape_alias", "unfold", "resize_", "_copy_from",
                           "_copy_from_and_resize", "_local_scalar_dense", "view_as_real", "view_as_complex"})
    if (taken.insert(name).second && find(name).has_value())
      aten.impl(name, torch::CppFunction::makeFromBoxedFunction<&metadata_kernel>());
  // Moving and making tensors is put together from the kernels above.
  for (const char* name : {"copy_", "_to_copy", "clone", "contiguous", "new_empty", "zeros", "ones", "full", "ones_like",
                           "scalar_tensor", "zeros.out", "ones.out", "full.out", "clone.out", "set_.source_Tensor_storage_offset"})
    taken.insert(name);
  for (const std::string& name : native) {
    if (!taken.insert(name).second) continue;
    auto op = find(name);
    if (!op.has_value() || op->hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd)) continue;
    aten.impl(name.c_str(), torch::CppFunction::makeFromBoxedFunction<&native_kernel>());
  }
  if (taken.insert("native_group_norm").second) aten.impl("native_group_norm", torch::CppFunction(group_norm));
  // Copying resolves these views; torch's fallback would resolve them by copying, for ever.
  for (auto key : {c10::DispatchKey::Conjugate, c10::DispatchKey::Negative, c10::DispatchKey::ZeroTensor})
    library("aten", key).impl("_copy_from", torch::CppFunction::makeFallthrough());
  library("_", c10::DispatchKey::PrivateUse1).fallback(torch::CppFunction::makeFromBoxedFunction<&fallback_kernel>());
  // What torch has for every other device, and since 2.10 or so for this one: operators without a
  // formula for their gradient (a custom one, or a composed one with a kernel here) run.
  if (!c10::Dispatcher::singleton().hasBackendFallbackForDispatchKey(c10::DispatchKey::AutogradPrivateUse1))
    library("_", c10::DispatchKey::AutogradPrivateUse1).fallback(torch::autograd::basicAutogradNotImplementedFallback());
  library("_", c10::DispatchKey::AutocastPrivateUse1).fallback(torch::CppFunction::makeFallthrough());
  register_autocast(library("aten", c10::DispatchKey::AutocastPrivateUse1));
}

}  // namespace nx
