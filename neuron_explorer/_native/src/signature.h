// What an operator was called with: shapes, strides, dtypes and the bounded values of the
// other arguments. Hashed on every call, written as text once.
#pragma once

#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>

#include <string>

#include "hashing.h"

namespace nx {

constexpr size_t kMaxListedTensors = 8;
constexpr size_t kMaxListedNumbers = 32;
constexpr size_t kMaxStringBytes = 64;
constexpr size_t kMaxTextBytes = 4096;

// Sizes of a tensor whose sizes are symbolic would be guarded on or call Python; a Python
// subclass may answer `sizes()` in Python. Both are left alone: only stored sizes are read.
inline bool has_plain_sizes(const c10::TensorImpl* t) { return !t->has_symbolic_sizes_strides(); }

// Layouts whose stored strides mean nothing.
const c10::DispatchKeySet kWithoutStrides({c10::DispatchKey::NestedTensor, c10::DispatchKey::Sparse,
                                           c10::DispatchKey::SparseCsr});

inline bool has_plain_strides(const c10::TensorImpl* t) {
  return has_plain_sizes(t) && !t->key_set().has_any(kWithoutStrides);
}

inline uint64_t hash_tensor(uint64_t h, const c10::TensorImpl* t) {
  if (t == c10::UndefinedTensorImpl::singleton()) return step(h, 0x11);
  uint64_t facts = static_cast<uint64_t>(static_cast<int>(c10::typeMetaToScalarType(t->dtype())) + 1) << 40;
  if (!t->is_python_dispatch()) {
    c10::Device d = t->device();
    facts |= (static_cast<uint64_t>(d.type()) << 24) | (static_cast<uint64_t>(static_cast<uint8_t>(d.index())) << 16);
  }
  if (!has_plain_sizes(t)) return step(h, facts | 0x8000);
  c10::IntArrayRef sizes = t->sizes_default();
  bool strided = has_plain_strides(t);
  // The sizes of a contiguous tensor say its strides.
  bool contiguous = t->is_contiguous_default(at::MemoryFormat::Contiguous);
  h = step(h, facts | (strided ? 0x4000 : 0) | (contiguous ? 0x2000 : 0) | sizes.size());
  if (contiguous || !strided) {
    for (int64_t v : sizes) h = step(h, static_cast<uint64_t>(v));
    return h;
  }
  c10::IntArrayRef strides = t->strides_default();
  for (size_t i = 0; i < sizes.size(); ++i)
    h = step(h, static_cast<uint64_t>(sizes[i]) * 0xD6E8FEB86659FD93ull + static_cast<uint64_t>(strides[i]));
  return h;
}

inline uint64_t hash_group(const c10::IValue& v);     // collectives.h
inline std::string group_text(const c10::IValue& v);  // collectives.h

// `floats` is off once an operator has shown many different floating point arguments: a
// learning rate that changes each step must not make a new signature each step.
inline uint64_t hash_value(uint64_t h, const c10::IValue& v, bool floats) {
  if (v.isTensor()) return hash_tensor(h, v.unsafeToTensorImpl());
  if (v.isNone()) return step(h, 0x4400);
  if (v.isInt()) return step(step(h, 0x4401), static_cast<uint64_t>(v.toInt()));
  if (v.isBool()) return step(h, v.toBool() ? 0x4402 : 0x4403);
  if (v.isDouble()) {
    if (!floats) return step(h, 0x4404);
    double d = v.toDouble();
    uint64_t bits;
    memcpy(&bits, &d, sizeof bits);
    return step(step(h, 0x4404), bits);
  }
  if (v.isString()) {
    std::string_view s = v.toStringView();
    return step(step(h, 0x4405), hash_text(s.data(), s.size()));
  }
  if (v.isList()) {
    c10::ArrayRef<c10::IValue> list = v.toListRef();
    h = step(step(h, 0x4406), list.size());
    for (const c10::IValue& e : list) h = hash_value(h, e, floats);
    return h;
  }
  if (v.isDevice()) {
    c10::Device d = v.toDevice();
    return step(step(h, 0x4407), (static_cast<uint64_t>(d.type()) << 16) ^ static_cast<uint16_t>(d.index()));
  }
  uint64_t group = v.isObject() ? hash_group(v) : 0;
  return group != 0 ? step(step(h, 0x4409), group) : step(h, 0x4408);
}

struct SignatureText {
  std::string shapes, strides, dtypes, arguments, device;
};

inline void append_number(std::string& out, double d) {
  char buffer[40];
  if (d != d || d - d != 0) {
    out += d != d ? "\"nan\"" : d > 0 ? "\"inf\"" : "\"-inf\"";
    return;
  }
  snprintf(buffer, sizeof buffer, "%.15g", d);
  if (strtod(buffer, nullptr) != d) snprintf(buffer, sizeof buffer, "%.17g", d);
  out += buffer;
  if (strpbrk(buffer, ".en") == nullptr) out += ".0";
}

inline void append_string(std::string& out, std::string_view s) {
  out += '"';
  size_t n = s.size();
  bool cut = n > kMaxStringBytes;
  if (cut) {
    n = kMaxStringBytes;
    while (n > 0 && (static_cast<unsigned char>(s[n]) & 0xC0) == 0x80) --n;
  }
  for (size_t i = 0; i < n; ++i) {
    unsigned char c = static_cast<unsigned char>(s[i]);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c < 0x20) {
      char buffer[8];
      snprintf(buffer, sizeof buffer, "\\u%04x", c);
      out += buffer;
    } else {
      out += static_cast<char>(c);
    }
  }
  if (cut) out += "\xE2\x80\xA6";
  out += '"';
}

inline const char* dtype_name(c10::ScalarType t) {
  switch (t) {
    case c10::ScalarType::Byte: return "uint8";
    case c10::ScalarType::Char: return "int8";
    case c10::ScalarType::Short: return "int16";
    case c10::ScalarType::Int: return "int32";
    case c10::ScalarType::Long: return "int64";
    case c10::ScalarType::Half: return "float16";
    case c10::ScalarType::Float: return "float32";
    case c10::ScalarType::Double: return "float64";
    case c10::ScalarType::ComplexHalf: return "complex32";
    case c10::ScalarType::ComplexFloat: return "complex64";
    case c10::ScalarType::ComplexDouble: return "complex128";
    case c10::ScalarType::Bool: return "bool";
    case c10::ScalarType::BFloat16: return "bfloat16";
    case c10::ScalarType::Float8_e5m2: return "float8_e5m2";
    case c10::ScalarType::Float8_e4m3fn: return "float8_e4m3fn";
    case c10::ScalarType::UInt16: return "uint16";
    case c10::ScalarType::UInt32: return "uint32";
    case c10::ScalarType::UInt64: return "uint64";
    default: return c10::toString(t);
  }
}

inline void append_ints(std::string& out, c10::IntArrayRef values) {
  out += '[';
  for (size_t i = 0; i < values.size(); ++i) {
    if (i) out += ',';
    out += std::to_string(values[i]);
  }
  out += ']';
}

struct SignatureWriter {
  SignatureText text;
  bool floats = true;

  void tensor(const c10::TensorImpl* t) {
    if (t == c10::UndefinedTensorImpl::singleton()) {
      all_null();
      return;
    }
    if (has_plain_sizes(t)) append_ints(text.shapes, t->sizes_default());
    else text.shapes += "\"symbolic\"";
    if (has_plain_strides(t)) append_ints(text.strides, t->strides_default());
    else text.strides += "null";
    append_string(text.dtypes, dtype_name(c10::typeMetaToScalarType(t->dtype())));
    text.arguments += "null";
    if (!t->is_python_dispatch()) device(t->device().str());
  }

  void value(const c10::IValue& v, const c10::Argument* argument) {
    if (v.isTensor()) {
      tensor(v.unsafeToTensorImpl());
      return;
    }
    if (v.isList()) {
      list(v.toListRef(), argument);
      return;
    }
    text.shapes += "null";
    text.strides += "null";
    text.dtypes += "null";
    scalar(v, argument);
  }

 private:
  // Every device of the tensors once, the first tensor's first.
  void device(const std::string& name) {
    std::string known = " " + text.device + " ";
    if (known.find(" " + name + " ") != std::string::npos) return;
    if (!text.device.empty()) text.device += ' ';
    text.device += name;
  }

  void all_null() {
    text.shapes += "null";
    text.strides += "null";
    text.dtypes += "null";
    text.arguments += "null";
  }

  void scalar(const c10::IValue& v, const c10::Argument* argument) {
    std::string& out = text.arguments;
    if (v.isInt()) {
      if (is_kind(argument, c10::TypeKind::ScalarTypeType)) {
        append_string(out, dtype_name(static_cast<c10::ScalarType>(v.toInt())));
      } else {
        out += std::to_string(v.toInt());
      }
    } else if (v.isBool()) {
      out += v.toBool() ? "true" : "false";
    } else if (v.isDouble()) {
      if (floats) append_number(out, v.toDouble());
      else append_string(out, "varies");
    } else if (v.isString()) {
      append_string(out, v.toStringView());
    } else if (v.isDevice()) {
      append_string(out, v.toDevice().str());
    } else if (v.isNone()) {
      out += "null";
    } else {
      std::string group = v.isObject() ? group_text(v) : std::string();
      append_string(out, group.empty() ? v.tagKind() : group);
    }
  }

  static bool is_kind(const c10::Argument* argument, c10::TypeKind kind) {
    if (argument == nullptr) return false;
    c10::TypePtr type = argument->real_type();
    if (auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
    return type->kind() == kind;
  }

  void list(c10::ArrayRef<c10::IValue> values, const c10::Argument* argument) {
    bool tensors = false;
    for (const c10::IValue& v : values) tensors = tensors || v.isTensor();
    if (!tensors) {
      text.shapes += "null";
      text.strides += "null";
      text.dtypes += "null";
      text.arguments += '[';
      size_t n = std::min(values.size(), kMaxListedNumbers);
      for (size_t i = 0; i < n; ++i) {
        if (i) text.arguments += ',';
        scalar(values[i], nullptr);
      }
      more(text.arguments, values.size() - n);
      text.arguments += ']';
      return;
    }
    (void)argument;
    text.shapes += '[';
    text.strides += '[';
    text.dtypes += '[';
    size_t n = std::min(values.size(), kMaxListedTensors);
    std::string outer_arguments;
    outer_arguments.swap(text.arguments);
    for (size_t i = 0; i < n; ++i) {
      if (i) comma(false);
      if (values[i].isTensor()) tensor(values[i].unsafeToTensorImpl());
      else all_null();
    }
    text.arguments.swap(outer_arguments);
    text.arguments += "null";
    more(text.shapes, values.size() - n, elements(values.slice(n)));
    more(text.strides, values.size() - n);
    more(text.dtypes, values.size() - n);
    text.shapes += ']';
    text.strides += ']';
    text.dtypes += ']';
  }

  // Elements of the tensors that are not listed; -1 where one's sizes are symbolic.
  static int64_t elements(c10::ArrayRef<c10::IValue> values) {
    int64_t sum = 0;
    for (const c10::IValue& v : values) {
      if (!v.isTensor()) continue;
      const c10::TensorImpl* t = v.unsafeToTensorImpl();
      if (t == c10::UndefinedTensorImpl::singleton()) continue;
      if (!has_plain_sizes(t)) return -1;
      int64_t product = 1;
      for (int64_t size : t->sizes_default()) product *= size;
      sum += product;
    }
    return sum;
  }

  static void more(std::string& out, size_t left, int64_t elements = -1) {
    if (left == 0) return;
    out += ",\"" + std::to_string(left) + " more";
    if (elements >= 0) out += ", " + std::to_string(elements) + " elements";
    out += '"';
  }

  void comma(bool arguments) {
    text.shapes += ',';
    text.strides += ',';
    text.dtypes += ',';
    if (arguments) text.arguments += ',';
  }

 public:
  void separator() { comma(true); }
};

inline void close_list(std::string& s) {
  s += ']';
  if (s.size() > kMaxTextBytes) s = "[\"too long\"]";
}

inline SignatureText describe(const at::RecordFunction& fn, bool floats) {
  SignatureWriter w;
  w.floats = floats;
  auto schema = fn.operator_schema();
  w.text.shapes = w.text.strides = w.text.dtypes = w.text.arguments = "[";
  c10::ArrayRef<const c10::IValue> inputs = fn.inputs();
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (i) w.separator();
    const c10::Argument* argument =
        schema && i < schema->arguments().size() ? &schema->arguments()[i] : nullptr;
    w.value(inputs[i], argument);
  }
  close_list(w.text.shapes);
  close_list(w.text.strides);
  close_list(w.text.dtypes);
  close_list(w.text.arguments);
  return w.text;
}

}  // namespace nx
