// Operators of the emulated device.
#pragma once

#include <torch/library.h>

#include <string>
#include <unordered_set>
#include <vector>

namespace nx {

// Registers the kernels; `native` holds ATen overloads that have a device kernel, the rest of
// the operators that do not decompose take the fallback. Called once.
void register_kernels(const std::vector<std::string>& native);

// Kernels written out here (factories, convolution, attention, LSTM); their names go to `taken`.
void register_own_kernels(torch::Library& aten, std::unordered_set<std::string>& taken);

// What autocast casts on the device: the lists that torch keeps for every accelerator.
void register_autocast(torch::Library& aten);

}  // namespace nx
