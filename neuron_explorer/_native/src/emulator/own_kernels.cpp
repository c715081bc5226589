// Operators that torch leaves to every backend, or whose CPU kernel is not the definition.
#include "kernels.h"

#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/ExpandUtils.h>
#include <ATen/native/DispatchStub.h>
#include <ATen/native/Resize.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/ops/set_native.h>
#include <ATen/record_function.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "counts.h"
#include "device.h"
#include "host_view.h"

namespace nx {

// The CPU's operators inside one of the device's are not recorded and not cast.
struct Quiet {
  at::DisableRecordFunctionGuard unrecorded;
  c10::impl::ExcludeDispatchKeyGuard uncast{c10::autocast_dispatch_keyset};
};

// The current device while a tensor is made on another.
class OnDevice {
 public:
  explicit OnDevice(const std::optional<at::Device>& device) : old_(t_device) {
    if (!device.has_value() || !device->has_index()) return;
    check_index(device->index());
    t_device = device->index();
  }
  ~OnDevice() { t_device = old_; }

 private:
  c10::DeviceIndex old_;
};

static void check_layout(const std::optional<at::Layout>& layout) {
  TORCH_CHECK(!layout.has_value() || *layout == at::kStrided, "neuron has no ", *layout, " tensors, only strided ones");
}

static at::Tensor empty_memory_format(at::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                                      std::optional<at::Device> device, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  check_layout(layout);
  OnDevice there(device);
  return at::detail::empty_generic(size, &g_allocator, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                   c10::dtype_or_default(dtype), format);
}

static at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride, std::optional<at::ScalarType> dtype,
                                std::optional<at::Layout> layout, std::optional<at::Device> device, std::optional<bool>) {
  check_layout(layout);
  OnDevice there(device);
  return at::detail::empty_strided_generic(size, stride, &g_allocator, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                           c10::dtype_or_default(dtype));
}

// A tensor of zeros that has no memory.
struct NoMemory final : c10::Allocator {
  c10::DataPtr allocate(size_t) override { return {nullptr, nullptr, &c10::detail::deleteNothing, c10::Device(kNeuron, t_device)}; }
  c10::DeleterFnPtr raw_deleter() const override { return c10::detail::deleteNothing; }
  void copy_data(void*, const void*, size_t) const override {}
};

static at::Tensor zero_tensor(at::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                              std::optional<at::Device> device, std::optional<bool>) {
  static NoMemory none;
  check_layout(layout);
  OnDevice there(device);
  return at::detail::empty_generic(size, &none, c10::DispatchKeySet({c10::DispatchKey::PrivateUse1, c10::DispatchKey::ZeroTensor}),
                                   c10::dtype_or_default(dtype), std::nullopt);
}

static at::Tensor& set_source_storage(at::Tensor& self, at::Storage source, int64_t offset, at::IntArrayRef size, at::IntArrayRef stride) {
  return at::native::set_storage_cpu_(self, std::move(source), offset, size, stride);
}
static at::Tensor& set_empty(at::Tensor& self) {
  c10::Storage storage(c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), 0,
                                                            g_allocator.allocate_on(0, self.device().index()), &g_allocator, true));
  self.set_(storage, 0, {0}, {1});
  return self;
}
static const at::Tensor& resize(const at::Tensor& self, at::IntArrayRef size, std::optional<at::MemoryFormat> format) {
  auto* impl = self.unsafeGetTensorImpl();
  if (self.sizes() == size) {  // keeps its strides
    if (format.has_value()) impl->empty_tensor_restride(*format);
    return self;
  }
  size_t bytes = at::detail::computeStorageNbytesContiguous(size, self.itemsize(), self.storage_offset());
  if (c10::multiply_integers(size) > 0 && bytes > self.storage().nbytes())
    at::detail::getPrivateUse1Hooks().resizePrivateUse1Bytes(self.storage(), bytes);
  impl->set_sizes_contiguous(size);
  if (format.has_value()) impl->empty_tensor_restride(*format);
  return self;
}

static void record_stream(at::Tensor&, at::Stream) {}

// Lets `module.to("neuron")` keep its Parameter objects, as TorchNeuron's own kernel does: tied
// weights stay tied, and an optimizer made before keeps its parameters. Torch answers no for a
// device that it does not know.
static bool has_compatible_shallow_copy_type(const at::Tensor& self, const at::Tensor& from) {
  auto plain = [](const at::Tensor& t) {
    return t.layout() == at::kStrided && !t.unsafeGetTensorImpl()->is_python_dispatch() &&
           (t.device().type() == kNeuron || t.device().is_cpu());
  };
  return plain(self) && plain(from);
}

static at::Tensor host(const at::Tensor& t, HostView& v) {
  if (t.defined() && !is_neuron(t) && t.dim() > 0)
    TORCH_CHECK(false, "Expected all tensors to be on the same device, but found at least two devices, ",
                v.has_device() ? v.device().str() : c10::Device(kNeuron, t_device).str(), " and ", t.device().str(), "!");
  return v.to_host(t);
}

// Results are contiguous, whatever the inputs are: so torch describes the convolutions of a device
// outside its tree, and compiled graphs are made for that.
static at::Tensor convolution(const at::Tensor& input, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                              at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
                              at::IntArrayRef output_padding, int64_t groups) {
  std::vector<c10::IValue> key = {input, weight, bias, stride, padding, dilation, transposed, output_padding, groups};
  use_artifact("aten::convolution", key);
  HostView v(false);
  Quiet quiet;
  std::optional<at::Tensor> b;
  at::Tensor x = host(input, v), w = host(weight, v);
  if (bias.has_value() && bias->defined()) b = host(*bias, v);
  return v.to_device(at::convolution(x, w, b, stride, padding, dilation, transposed, output_padding, groups).contiguous());
}

static std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward(
    const at::Tensor& grad, const at::Tensor& input, const at::Tensor& weight, at::IntArrayRef stride, at::IntArrayRef padding,
    at::IntArrayRef dilation, bool transposed, at::IntArrayRef output_padding, int64_t groups, std::array<bool, 3> mask) {
  std::vector<c10::IValue> key = {grad, input, weight, stride, padding, dilation, transposed, groups};
  use_artifact("aten::convolution_backward", key);
  HostView v(false);
  Quiet quiet;
  int64_t channels = transposed ? weight.size(1) * groups : weight.size(0);
  auto out = at::convolution_backward(host(grad, v), host(input, v), host(weight, v), at::IntArrayRef({channels}), stride, padding,
                                      dilation, transposed, output_padding, groups, mask);
  auto back = [&](const at::Tensor& t) { return t.defined() ? v.to_device(t.contiguous()) : t; };
  return {back(std::get<0>(out)), back(std::get<1>(out)), back(std::get<2>(out))};
}

static std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward_with_sizes(
    const at::Tensor& grad, const at::Tensor& input, const at::Tensor& weight, at::OptionalIntArrayRef, at::IntArrayRef stride,
    at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed, at::IntArrayRef output_padding, int64_t groups,
    std::array<bool, 3> mask) {
  return convolution_backward(grad, input, weight, stride, padding, dilation, transposed, output_padding, groups, mask);
}

// Torch's numbers of the ways to compute attention: 0 is the definition, 4 the device's own.
static int64_t sdp_choice(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const std::optional<at::Tensor>&,
                          double dropout, bool, std::optional<double>, bool grouped) {
  bool plain = query.dim() == 4 && key.dim() == 4 && value.dim() == 4 && query.size(1) == key.size(1);
  return dropout > 0 || grouped || !plain ? 0 : 4;
}

}  // namespace nx

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &nx::sdp_choice)
}

namespace nx {

using Attention = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, c10::SymInt, c10::SymInt, at::Tensor, at::Tensor, at::Tensor>;

// Attention's result lies in memory as torch's description of the operator says it does (compiled
// graphs are made for that): the dimensions in the order that the query's have.
static at::Tensor laid_out_as_query(const at::Tensor& out, const at::Tensor& query) {
  if (out.sizes() == query.sizes()) return at::empty_like(query, out.options()).copy_(out);
  std::vector<int64_t> order(query.dim());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return query.stride(a) > query.stride(b); });
  std::vector<int64_t> strides(query.dim());
  int64_t stride = 1;
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    strides[*it] = stride;
    stride *= out.size(*it);
  }
  return at::empty_strided(out.sizes(), strides, out.options()).copy_(out);
}

// The fused attention of the device, as the mathematical definition on the CPU.
static Attention attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                           const std::optional<at::Tensor>& bias, double, bool causal, bool, std::optional<double> scale) {
  std::vector<c10::IValue> k = {query, key, value, causal};
  use_artifact("aten::_scaled_dot_product_fused_attention_overrideable", k);
  HostView v(false);
  Quiet quiet;
  at::Tensor q = host(query, v), kk = host(key, v), vv = host(value, v);
  std::optional<at::Tensor> b;
  if (bias.has_value() && bias->defined()) b = host(*bias, v);
  auto out = std::get<0>(at::_scaled_dot_product_attention_math(q, kk, vv, b, 0.0, causal, std::nullopt, scale));
  at::Tensor lse = at::empty({query.size(0), query.size(1), query.size(2)}, q.options().dtype(at::kFloat)).zero_();
  out = laid_out_as_query(out, q);
  auto none = [&] { return v.to_device(at::zeros({}, q.options().dtype(at::kLong))); };
  return {v.to_device(out), v.to_device(lse), at::Tensor(), at::Tensor(), query.sym_size(2), key.sym_size(2),
          none(), none(), at::Tensor()};
}

static std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> attention_backward(
    const at::Tensor& grad, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const at::Tensor& bias,
    std::array<bool, 4> mask, const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&, c10::SymInt, c10::SymInt,
    double, bool causal, const at::Tensor&, const at::Tensor&, std::optional<double> scale) {
  std::vector<c10::IValue> k = {grad, query, key, value, causal};
  use_artifact("aten::_scaled_dot_product_fused_attention_overrideable_backward", k);
  HostView v(false);
  Quiet quiet;
  // The gradient of the definition, written out; in float where the inputs are narrower.
  auto type = at::promote_types(query.scalar_type(), at::kFloat);
  auto wide = [&](const at::Tensor& t) { return host(t, v).to(type); };
  at::Tensor q = wide(query), kk = wide(key), vv = wide(value), g = wide(grad);
  double factor = scale.value_or(1.0 / std::sqrt(static_cast<double>(query.size(-1))));
  at::Tensor scores = at::matmul(q, kk.transpose(-2, -1)).mul_(factor);
  if (bias.defined()) scores = scores + wide(bias);
  if (causal) {
    at::Tensor past = at::ones({query.size(-2), key.size(-2)}, scores.options().dtype(at::kBool)).tril_();
    scores = scores.masked_fill(past.logical_not_(), -std::numeric_limits<double>::infinity());
  }
  at::Tensor weights = at::_safe_softmax(scores, -1);
  at::Tensor of_weights = at::matmul(g, vv.transpose(-2, -1));
  at::Tensor of_scores = weights * (of_weights - (of_weights * weights).sum(-1, true));
  auto back = [&](const at::Tensor& t, const at::Tensor& like) { return v.to_device(at::empty_like(host(like, v)).copy_(t)); };
  at::Tensor of_bias;
  if (bias.defined() && mask[3]) of_bias = back(at::sum_to(of_scores, bias.sizes()), bias);
  return {mask[0] ? back(at::matmul(of_scores, kk).mul_(factor), query) : at::Tensor(),
          mask[1] ? back(at::matmul(of_scores.transpose(-2, -1), q).mul_(factor), key) : at::Tensor(),
          mask[2] ? back(at::matmul(weights.transpose(-2, -1), g), value) : at::Tensor(), of_bias};
}

static std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm_cell(const at::Tensor& input_gates, const at::Tensor& hidden_gates,
                                                                const at::Tensor& cx, const std::optional<at::Tensor>& input_bias,
                                                                const std::optional<at::Tensor>& hidden_bias) {
  std::vector<c10::IValue> key = {input_gates, hidden_gates, cx};
  use_artifact("aten::_thnn_fused_lstm_cell", key);
  HostView v(false);
  Quiet quiet;
  at::Tensor gates = host(input_gates, v) + host(hidden_gates, v);
  if (input_bias.has_value() && input_bias->defined()) gates = gates + host(*input_bias, v);
  if (hidden_bias.has_value() && hidden_bias->defined()) gates = gates + host(*hidden_bias, v);
  auto parts = gates.chunk(4, 1);
  at::Tensor i = parts[0].sigmoid(), f = parts[1].sigmoid(), g = parts[2].tanh(), o = parts[3].sigmoid();
  at::Tensor c = f * host(cx, v) + i * g;
  at::Tensor h = o * c.tanh();
  return {v.to_device(h), v.to_device(c), v.to_device(at::cat({i, f, g, o}, 1))};
}

static std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm_cell_backward(const std::optional<at::Tensor>& grad_h,
                                                                         const std::optional<at::Tensor>& grad_c, const at::Tensor& cx,
                                                                         const at::Tensor& cy, const at::Tensor& workspace, bool has_bias) {
  if (!(grad_h.has_value() && grad_h->defined()) && !(grad_c.has_value() && grad_c->defined())) return {};
  std::vector<c10::IValue> key = {cx, cy, workspace};
  use_artifact("aten::_thnn_fused_lstm_cell_backward_impl", key);
  HostView v(false);
  Quiet quiet;
  auto parts = host(workspace, v).chunk(4, 1);
  at::Tensor i = parts[0], f = parts[1], g = parts[2], o = parts[3], c = host(cy, v).tanh();
  at::Tensor gh = grad_h.has_value() && grad_h->defined() ? host(*grad_h, v) : at::zeros_like(c);
  at::Tensor gc = gh * o * (1 - c * c);
  if (grad_c.has_value() && grad_c->defined()) gc = gc + host(*grad_c, v);
  at::Tensor gates = at::cat({gc * g * i * (1 - i), gc * host(cx, v) * f * (1 - f), gc * i * (1 - g * g), gh * c * o * (1 - o)}, 1);
  at::Tensor bias = has_bias ? v.to_device(gates.sum(0)) : at::Tensor();
  at::Tensor out_c = v.to_device(gc * f);
  return {v.to_device(gates), out_c, bias};
}

static std::tuple<at::Tensor, at::Tensor> gru_cell(const at::Tensor& input_gates, const at::Tensor& hidden_gates, const at::Tensor& hx,
                                                   const std::optional<at::Tensor>& input_bias,
                                                   const std::optional<at::Tensor>& hidden_bias) {
  std::vector<c10::IValue> key = {input_gates, hidden_gates, hx};
  use_artifact("aten::_thnn_fused_gru_cell", key);
  HostView v(false);
  Quiet quiet;
  at::Tensor in = host(input_gates, v), hidden = host(hidden_gates, v), h = host(hx, v);
  if (input_bias.has_value() && input_bias->defined()) in = in + host(*input_bias, v);
  if (hidden_bias.has_value() && hidden_bias->defined()) hidden = hidden + host(*hidden_bias, v);
  auto i = in.chunk(3, 1), g = hidden.chunk(3, 1);
  at::Tensor reset = (i[0] + g[0]).sigmoid(), update = (i[1] + g[1]).sigmoid();
  at::Tensor fresh = (i[2] + reset * g[2]).tanh();
  return {v.to_device(fresh + update * (h - fresh)), v.to_device(at::cat({reset, update, fresh, h, g[2]}, 1))};
}

static std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> gru_cell_backward(const at::Tensor& grad,
                                                                                                const at::Tensor& workspace,
                                                                                                bool has_bias) {
  std::vector<c10::IValue> key = {grad, workspace};
  use_artifact("aten::_thnn_fused_gru_cell_backward", key);
  HostView v(false);
  Quiet quiet;
  auto w = host(workspace, v).chunk(5, 1);
  at::Tensor reset = w[0], update = w[1], fresh = w[2], h = w[3], hidden = w[4], g = host(grad, v);
  at::Tensor of_fresh = g * (1 - update) * (1 - fresh * fresh);
  at::Tensor of_update = g * (h - fresh) * update * (1 - update);
  at::Tensor of_reset = of_fresh * hidden * reset * (1 - reset);
  at::Tensor in = at::cat({of_reset, of_update, of_fresh}, 1), hid = at::cat({of_reset, of_update, of_fresh * reset}, 1);
  at::Tensor in_bias = has_bias ? v.to_device(in.sum(0)) : at::Tensor();
  at::Tensor hid_bias = has_bias ? v.to_device(hid.sum(0)) : at::Tensor();
  at::Tensor of_h = v.to_device(g * update);
  return {v.to_device(in), v.to_device(hid), of_h, in_bias, hid_bias};
}

// Counts of integers: the CPU's kernel knows floating point only, a device's counts them too, in
// their own arithmetic. What lies outside of the bins is not counted; the last bin holds its end.
static at::Tensor count_integers(const at::Tensor& values, int64_t bins, int64_t low, int64_t high) {
  TORCH_CHECK(bins > 0, "bins must be > 0");
  at::Tensor wide = values.to(at::kLong).reshape({-1});
  if (low == high && wide.numel() > 0) {
    low = wide.min().item<int64_t>();
    high = wide.max().item<int64_t>();
  }
  if (low == high) {
    low -= low > std::numeric_limits<int64_t>::min();
    high += high < std::numeric_limits<int64_t>::max();
  }
  TORCH_CHECK(low < high, "max must be larger than min");
  at::Tensor inside = wide.masked_select(wide.ge(low).logical_and(wide.le(high)));
  at::Tensor counts = at::zeros({bins}, wide.options());
  const auto* value = inside.const_data_ptr<int64_t>();
  auto* count = counts.mutable_data_ptr<int64_t>();
  for (int64_t i = 0; i < inside.numel(); ++i) {
    // 128 bits: the distance times the bins may not fit in less.
    auto distance = static_cast<unsigned __int128>(static_cast<uint64_t>(value[i]) - static_cast<uint64_t>(low));
    auto width = static_cast<unsigned __int128>(static_cast<uint64_t>(high) - static_cast<uint64_t>(low));
    auto bin = static_cast<int64_t>(distance * static_cast<unsigned __int128>(bins) / width);
    ++count[std::min(bin, bins - 1)];
  }
  return counts.to(values.scalar_type());
}

static at::Tensor histogram_counts(const at::Tensor& self, int64_t bins, const at::Scalar& low, const at::Scalar& high) {
  std::vector<c10::IValue> key = {self, bins};
  use_artifact("aten::histc", key);
  HostView v(false);
  Quiet quiet;
  at::Tensor values = host(self, v);
  bool counted = at::isIntegralType(self.scalar_type(), /*includeBool=*/false);
  return v.to_device(counted ? count_integers(values, bins, low.to<int64_t>(), high.to<int64_t>()) : at::histc(values, bins, low, high));
}

static at::Tensor& histogram_counts_out(const at::Tensor& self, int64_t bins, const at::Scalar& low, const at::Scalar& high, at::Tensor& out) {
  at::Tensor counts = histogram_counts(self, bins, low, high);
  TORCH_CHECK(out.scalar_type() == self.scalar_type(), "torch.histogram: input tensor and hist tensor should have the same dtype, but got input ",
              self.scalar_type(), " and hist ", out.scalar_type());
  at::native::resize_output(out, counts.sizes());
  return out.copy_(counts);
}

// ---------------------------------------------------------------- registration

void register_own_kernels(torch::Library& aten, std::unordered_set<std::string>& taken) {
  auto own = [&](const char* name, torch::CppFunction&& f) {
    aten.impl(name, std::move(f));
    taken.insert(name);
  };
  own("empty.memory_format", torch::CppFunction(empty_memory_format));
  own("_efficientzerotensor", torch::CppFunction(zero_tensor));
  own("empty_strided", torch::CppFunction(empty_strided));
  own("set_.source_Storage_storage_offset", torch::CppFunction(set_source_storage));
  own("resize_", torch::CppFunction(resize));
  own("set_", torch::CppFunction(set_empty));
  own("set_.source_Storage", torch::CppFunction(static_cast<at::Tensor& (*)(at::Tensor&, at::Storage)>(at::native::set_)));
  own("set_.source_Tensor", torch::CppFunction(at::native::set_tensor_));
  own("record_stream", torch::CppFunction(record_stream));
  own("_has_compatible_shallow_copy_type", torch::CppFunction(has_compatible_shallow_copy_type));
  own("convolution", torch::CppFunction(convolution));
  own("convolution_backward", torch::CppFunction(convolution_backward_with_sizes));
  own("convolution_overrideable", torch::CppFunction(convolution));
  own("convolution_backward_overrideable", torch::CppFunction(convolution_backward));
  own("_fused_sdp_choice", torch::CppFunction(sdp_choice));
  own("_scaled_dot_product_fused_attention_overrideable", torch::CppFunction(attention));
  own("_scaled_dot_product_fused_attention_overrideable_backward", torch::CppFunction(attention_backward));
  own("histc", torch::CppFunction(histogram_counts));
  own("histc.out", torch::CppFunction(histogram_counts_out));
  own("_thnn_fused_gru_cell", torch::CppFunction(gru_cell));
  own("_thnn_fused_gru_cell_backward", torch::CppFunction(gru_cell_backward));
  own("_thnn_fused_lstm_cell", torch::CppFunction(lstm_cell));
  own("_thnn_fused_lstm_cell_backward_impl", torch::CppFunction(lstm_cell_backward));
}

}  // namespace nx
