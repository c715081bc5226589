#include <ATen/autocast_mode.h>

#include "kernels.h"

namespace at::autocast {

// In this namespace because torch's macros name its parts without it.
static void register_lists(torch::Library& m) {
#define NX_LOWER(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
#define NX_FP32(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
#define NX_FP32_UNLESS_ASKED(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
#define NX_WIDEST(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)
  AT_FORALL_LOWER_PRECISION_FP(NX_LOWER)
  AT_FORALL_FP32(NX_FP32)
  AT_FORALL_FP32_SET_OPT_DTYPE(NX_FP32_UNLESS_ASKED)
  AT_FORALL_PROMOTE(NX_WIDEST)
  AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(KERNEL_DIFFERENT_REDISPATCH_SIGNATURE_PRIVATEUSEONE)
}

}  // namespace at::autocast

namespace nx {

void register_autocast(torch::Library& aten) { at::autocast::register_lists(aten); }

}  // namespace nx
