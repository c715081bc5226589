#include "host_view.h"

#include <ATen/ATen.h>

namespace nx {

static c10::Storage make_storage(size_t bytes, c10::DataPtr data, c10::Allocator* allocator) {
  return c10::Storage(c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes, std::move(data),
                                                            allocator, /*resizable=*/true));
}

static c10::DataPtr take(c10::StorageImpl* host) {
  return host->set_data_ptr(c10::DataPtr(nullptr, c10::Device(c10::DeviceType::CPU)));
}

at::Tensor tensor_over(const c10::Storage& storage, c10::DispatchKey key, const at::Tensor& like) {
  auto t = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(storage), c10::DispatchKeySet(key), like.dtype());
  auto* impl = t.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(like.sizes(), like.strides(), like.storage_offset());
  if (like.unsafeGetTensorImpl()->is_wrapped_number()) impl->set_wrapped_number(true);
  if (like.is_conj()) t._set_conj(true);
  if (like.is_neg()) t._set_neg(true);
  return t;
}

void HostView::remember(StoragePair pair) {
  device_storages_.add(pair.device.unsafeGetStorageImpl());
  host_storages_.add(pair.host.unsafeGetStorageImpl());
  storages_.push_back(std::move(pair));
}

c10::Storage HostView::host_storage(const at::Tensor& t, bool written) {
  auto* storage = t.storage().unsafeGetStorageImpl();
  if (size_t i = device_storages_.find(storage); i != Positions::kNone) {
    storages_[i].written = storages_[i].written || written;
    return storages_[i].host;
  }
  void* data = storage->mutable_data();
  size_t bytes = storage->nbytes();
  c10::DataPtr pointer(data, nullptr, &c10::detail::deleteNothing, c10::Device(c10::DeviceType::CPU));
  TORCH_CHECK(data != nullptr || bytes == 0, "neuron: a tensor without memory cannot be used here");
  if (copy_ && bytes > 0) {
    // The whole storage is copied, so that strides stay; what is counted is the tensor's own bytes.
    pointer = c10::GetAllocator(c10::DeviceType::CPU)->allocate(bytes);
    ::memcpy(pointer.get(), data, bytes);
    data = pointer.get();
  }
  c10::Storage host = make_storage(bytes, std::move(pointer), c10::GetAllocator(c10::DeviceType::CPU));
  remember({t.storage(), host, data, true, written});
  return host;
}

// A program may take the memory from a tensor that it still holds (``storage.resize_(0)``).
static void check_memory(const at::Tensor& t) {
  if (t.numel() == 0) return;
  size_t needed = at::detail::computeStorageNbytes(t.sizes(), t.strides(), t.itemsize(), t.storage_offset());
  TORCH_CHECK(needed <= t.storage().nbytes(), "neuron: the memory of a tensor is gone: it needs ", needed,
              " bytes, and its storage was resized to ", t.storage().nbytes());
}

at::Tensor HostView::to_host(const at::Tensor& t, bool written) {
  if (!is_neuron(t)) return t;
  see(t.device());
  if (reads_) check_memory(t);
  if (size_t i = device_tensors_.find(t.unsafeGetTensorImpl()); i != Positions::kNone) {
    if (written) host_storage(t, true);
    return tensors_[i].host;
  }
  at::Tensor view = tensor_over(host_storage(t, written), c10::DispatchKey::CPU, t);
  device_tensors_.add(t.unsafeGetTensorImpl());
  host_tensors_.add(view.unsafeGetTensorImpl());
  tensors_.push_back({t, view});
  return view;
}

bool HostView::is_argument(const at::Tensor& host) const {
  if (host_tensors_.find(host.unsafeGetTensorImpl()) != Positions::kNone) return true;
  if (!host.has_storage()) return false;
  size_t i = host_storages_.find(host.storage().unsafeGetStorageImpl());
  return i != Positions::kNone && storages_[i].argument;
}

at::Tensor HostView::to_device(const at::Tensor& t) {
  if (!t.defined() || t.device().type() != c10::DeviceType::CPU) return t;
  if (size_t i = host_tensors_.find(t.unsafeGetTensorImpl()); i != Positions::kNone) return tensors_[i].device;
  TORCH_CHECK(t.layout() == at::kStrided && t.has_storage(), "neuron has no ", t.layout(), " tensors, only strided ones");
  auto* storage = t.storage().unsafeGetStorageImpl();
  if (size_t i = host_storages_.find(storage); i != Positions::kNone)
    return tensor_over(storages_[i].device, c10::DispatchKey::PrivateUse1, t);
  size_t bytes = storage->nbytes();
  TORCH_CHECK(storage->data() != nullptr || bytes == 0, "neuron: a tensor without memory cannot be used here");
  c10::DataPtr taken;
  if (bytes == 0) {
    taken = c10::DataPtr(nullptr, nullptr, &c10::detail::deleteNothing, device_);
  } else if (copy_) {
    taken = g_allocator.allocate_on(bytes, device_.index());
    ::memcpy(taken.get(), storage->data(), bytes);
  } else {
    taken = adopt(take(storage), bytes, device_.index());
  }
  c10::Storage fresh = make_storage(bytes, std::move(taken), &g_allocator);
  // Further results over the same storage find it here.
  remember({fresh, t.storage(), nullptr, false, false});
  return tensor_over(fresh, c10::DispatchKey::PrivateUse1, t);
}

void HostView::finish_storage(StoragePair& s) {
  auto* host = s.host.unsafeGetStorageImpl();
  auto* device = s.device.unsafeGetStorageImpl();
  size_t bytes = host->nbytes();
  if (host->data() != s.data || bytes != device->nbytes()) {
    c10::DataPtr taken;
    if (copy_ || bytes == 0) {
      taken = g_allocator.allocate_on(bytes, device->device().index());
      if (bytes > 0) ::memcpy(taken.get(), host->data(), bytes);
    } else {
      taken = adopt(take(host), bytes, device->device().index());
    }
    device->set_data_ptr_noswap(std::move(taken));
    device->set_nbytes(bytes);
  } else if (copy_ && bytes > 0 && (s.written || ::memcmp(device->data(), host->data(), bytes) != 0)) {
    // Some operators write to arguments that their schema calls read-only (running statistics).
    ::memcpy(device->mutable_data(), host->data(), bytes);
  }
}

void HostView::finish() {
  for (auto& s : storages_)
    if (s.argument) finish_storage(s);
  for (auto& p : tensors_) {
    auto* from = p.host.unsafeGetTensorImpl();
    auto* to = p.device.unsafeGetTensorImpl();
    if (to->sizes() != from->sizes() || to->strides() != from->strides() || to->storage_offset() != from->storage_offset())
      to->set_sizes_and_strides(from->sizes(), from->strides(), from->storage_offset());
  }
}

void HostView::see(c10::Device d) {
  check_usable();
  if (!has_device_) {
    device_ = d;
    has_device_ = true;
    return;
  }
  TORCH_CHECK(device_ == d, "Expected all tensors to be on the same device, but found at least two devices, ", device_.str(),
              " and ", d.str(), "!");
}

}  // namespace nx
