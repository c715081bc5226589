// What an event says of its operator: its name, the signature of its arguments, and the storages of
// its tensors when they are asked for.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>

#include "collectives.h"
#include "signature.h"
#include "state.h"

namespace nx {

// An operator's schema owns its name, so the address of the name finds the operator. Anything
// else has an empty literal as overload and perhaps a temporary string as name: its text
// decides, and it is not kept by address.
static uint32_t find_name(Session* s, ThreadState* t, const char* name, const at::RecordFunction* fn, uint8_t scope) {
  NameSlot& known = t->by_address[((reinterpret_cast<uintptr_t>(name) >> 4) ^ (reinterpret_cast<uintptr_t>(name) >> 13)) % kNameSlots];
  // A name of a schema that is gone may lie where another lay: the first bytes are compared.
  if (known.name == name && ::memcmp(known.text, name, sizeof known.text) == 0) return known.id;
  const char* overload = fn == nullptr ? g_no_overload : fn->overload_name();
  bool stable = overload != g_no_overload;
  size_t length = ::strlen(name);
  uint64_t key = mix(hash_text(name, length), scope);
  size_t overload_length = ::strlen(overload);
  if (overload_length) key = mix(key, hash_text(overload, overload_length));
  uint32_t id = t->names.find(key);
  if (id == 0) {
    std::string text(name, length);
    if (overload_length) {
      text += '.';
      text.append(overload, overload_length);
    }
    if (text.size() > 4096) text.resize(4096);
    {
      std::lock_guard<std::mutex> lock(s->tables.mutex);
      id = s->tables.name(text, scope);
      if (id == 0) {
        if (s->tables.error()) fail(s, s->tables.error());
        return 0;
      }
      // What the name means travels in the cached id's top bits.
      if (s->tables.names[id - 1].skip) id |= kSkipBit;
      if (collective_name(name, scope) != CollectiveName::kNone) id |= kCollectiveBit;
    }
    t->names.insert(key, id);
  }
  if (stable) {
    known.name = name;
    known.id = id;
    ::memcpy(known.text, name, sizeof known.text);
  }
  return id;
}

static uint32_t find_signature(Session* s, ThreadState* t, const at::RecordFunction& fn, uint32_t name) {
  c10::ArrayRef<const c10::IValue> inputs = fn.inputs();
  bool coarse_name = name < t->coarse_names.size() && t->coarse_names[name];
  uint64_t key = step(coarse_name ? 0x9A : 0x99, name);
  for (const c10::IValue& v : inputs) key = hash_value(key, v, !coarse_name);
  key = mix(key, inputs.size());
  uint32_t id = t->signatures.find(key);
  if (id != 0) return id;
  std::lock_guard<std::mutex> lock(s->tables.mutex);
  bool floats = s->tables.names[name - 1].float_signatures < kManyFloats;
  uint64_t coarse = step(0x9A, name);
  for (const c10::IValue& v : inputs) coarse = hash_value(coarse, v, false);
  coarse = mix(coarse, inputs.size());
  auto it = s->tables.signature_ids.find(key);
  if (it == s->tables.signature_ids.end() && !floats) it = s->tables.signature_ids.find(coarse);
  if (!floats) {
    if (name >= t->coarse_names.size()) t->coarse_names.resize(name + 1);
    t->coarse_names[name] = true;
  }
  if (it != s->tables.signature_ids.end()) {
    t->signatures.insert(key, it->second);
    return it->second;
  }
  if (s->tables.signature_count >= kMaxSignatures) {
    ++s->tables.signatures_capped;
    return 0;
  }
  // A signature that differs from a known one only in its floats counts against the limit.
  if (floats) {
    auto inserted = s->tables.signature_ids.emplace(mix(coarse, 0x9B), 1u);
    if (!inserted.second) ++s->tables.names[name - 1].float_signatures;
  }
  SignatureText text = describe(fn, floats);
  id = ++s->tables.signature_count;
  Entry e(kTableSignature);
  e.u32(id).text(text.shapes).text(text.strides).text(text.dtypes).text(text.arguments).text(text.device);
  if (!s->tables.write(e)) return 0;
  s->tables.signature_ids.emplace(floats ? key : coarse, id);
  t->signatures.insert(key, id);
  return id;
}

static void record_tensors(Session* s, ThreadState* t, const at::RecordFunction& fn, uint32_t index) {
  auto one = [&](const c10::TensorImpl* impl, size_t argument, size_t position) {
    if (impl == c10::UndefinedTensorImpl::singleton() || impl->is_python_dispatch() || !impl->has_storage()) return;
    auto* r = static_cast<TensorRecord*>(t->tensors.take(sizeof(TensorRecord)));
    if (r == nullptr) {
      fail(s, t->tensors.error());
      return;
    }
    r->event = index;
    r->argument = static_cast<uint16_t>(argument);
    r->reserved = static_cast<uint16_t>(position);
    r->version = const_cast<c10::TensorImpl*>(impl)->is_inference()
                     ? ~0ull
                     : const_cast<c10::TensorImpl*>(impl)->version_counter().current_version();
    r->offset = impl->has_symbolic_sizes_strides() ? 0 : static_cast<uint64_t>(impl->storage_offset()) + 1;
    r->storage = reinterpret_cast<uint64_t>(impl->unsafe_storage().unsafeGetStorageImpl());
  };
  c10::ArrayRef<const c10::IValue> inputs = fn.inputs();
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].isTensor()) {
      one(inputs[i].unsafeToTensorImpl(), i, 0);
    } else if (inputs[i].isList()) {
      size_t j = 0;
      for (const c10::IValue& v : inputs[i].toListRef()) {
        if (v.isTensor()) one(v.unsafeToTensorImpl(), i, j);
        ++j;
      }
    }
  }
}

}  // namespace nx
