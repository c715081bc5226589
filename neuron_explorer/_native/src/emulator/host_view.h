// The arguments of one call as the CPU sees them, and its results as the device's tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <unordered_map>
#include <vector>

#include "device.h"

namespace nx {

inline bool is_neuron(const at::Tensor& t) { return t.defined() && t.device().type() == kNeuron; }

// A new tensor over `storage` with the dtype, sizes and strides of `like`.
at::Tensor tensor_over(const c10::Storage& storage, c10::DispatchKey key, const at::Tensor& like);

// Positions of addresses: a call has a handful of tensors, or thousands (fused optimizers).
class Positions {
 public:
  static constexpr size_t kNone = ~size_t{0};

  void add(const void* address) {
    all_.push_back(address);
    if (all_.size() < kFew) return;
    if (all_.size() == kFew)
      for (size_t i = 0; i < all_.size(); ++i) many_.emplace(all_[i], i);
    else many_.emplace(address, all_.size() - 1);
  }

  size_t find(const void* address) const {
    if (all_.size() >= kFew) {
      auto it = many_.find(address);
      return it == many_.end() ? kNone : it->second;
    }
    for (size_t i = 0; i < all_.size(); ++i)
      if (all_[i] == address) return i;
    return kNone;
  }

 private:
  static constexpr size_t kFew = 24;
  std::vector<const void*> all_;
  std::unordered_map<const void*, size_t> many_;
};

class HostView {
 public:
  // With `copy` the bytes travel, as they do when the device falls back to the CPU; without,
  // the CPU works on the device's memory. `reads`: the memory is used, not only described.
  explicit HostView(bool copy, bool reads = true) : copy_(copy), reads_(reads) {}

  at::Tensor to_host(const at::Tensor& t, bool written = false);
  at::Tensor to_device(const at::Tensor& t);

  // After a call that writes to its arguments: what the CPU wrote or resized becomes the device's.
  void finish();

  // Whether `host` is, or lies over, an argument of the call.
  bool is_argument(const at::Tensor& host) const;

  // All tensors of one call lie on one device.
  void see(c10::Device d);
  bool has_device() const { return has_device_; }
  c10::Device device() const { return device_; }
  void default_device(c10::Device d) {
    if (!has_device_) see(d);
  }

 private:
  struct StoragePair {
    c10::Storage device;
    c10::Storage host;
    const void* data;  // where the host storage lay before the call
    bool argument;
    bool written;
  };
  struct TensorPair {
    at::Tensor device;
    at::Tensor host;
  };
  c10::Storage host_storage(const at::Tensor& t, bool written);
  void remember(StoragePair pair);
  void finish_storage(StoragePair& s);

  bool copy_, reads_;
  bool has_device_ = false;
  c10::Device device_{kNeuron, 0};
  std::vector<StoragePair> storages_;
  std::vector<TensorPair> tensors_;
  Positions device_storages_, host_storages_, device_tensors_, host_tensors_;
};

}  // namespace nx
