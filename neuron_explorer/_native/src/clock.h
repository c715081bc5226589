// Nanoseconds of CLOCK_MONOTONIC, read from the processor's time stamp counter where the
// kernel itself trusts it (half the price of asking the kernel's page).
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <x86intrin.h>
#endif

namespace nx {

inline uint64_t monotonic_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1000000000ull + static_cast<uint64_t>(t.tv_nsec);
}

// The rate is measured between `open` (when the module is loaded) and `calibrate` (when a
// recording starts, at least 20 ms later): 1 part in a million, so that an hour's times are
// within 4 ms of the system's clock, and exact differences stay exact to that part. Forked
// children keep the parent's rate and so agree with it.
class Clock {
 public:
  void open() {
#if defined(__x86_64__)
    usable_ = invariant() && kernel_uses_it();
    if (usable_) sample(&first_ticks_, &first_ns_);
#endif
  }

  void calibrate() {
#if defined(__x86_64__)
    if (!usable_) return;
    uint64_t ticks, ns;
    sample(&ticks, &ns);
    if (ns - first_ns_ < 20000000ull) {
      ::usleep(static_cast<useconds_t>(20000 - (ns - first_ns_) / 1000));
      sample(&ticks, &ns);
    }
    base_ticks_ = ticks;
    base_ns_ = ns;
    rate_ = static_cast<uint64_t>((static_cast<unsigned __int128>(ns - first_ns_) << 32) / (ticks - first_ticks_));
    calibrated_ = true;
#endif
  }

  uint64_t now() const {
#if defined(__x86_64__)
    if (__builtin_expect(calibrated_, 1)) {
      uint64_t ticks = __rdtsc();
      // Another core's counter may lag by some ticks right after the calibration.
      if (__builtin_expect(ticks < base_ticks_, 0)) return base_ns_;
      return base_ns_ + static_cast<uint64_t>((static_cast<unsigned __int128>(ticks - base_ticks_) * rate_) >> 32);
    }
#endif
    return monotonic_ns();
  }

 private:
#if defined(__x86_64__)
  static bool invariant() {
    unsigned a, b, c, d;
    return __get_cpuid(0x80000007, &a, &b, &c, &d) != 0 && (d & (1u << 8)) != 0;
  }

  static bool kernel_uses_it() {
    char name[32] = {0};
    FILE* f = ::fopen("/sys/devices/system/clocksource/clocksource0/current_clocksource", "re");
    if (f == nullptr) return false;
    bool read = ::fgets(name, sizeof name, f) != nullptr;
    ::fclose(f);
    return read && ::strncmp(name, "tsc\n", 4) == 0;
  }

  // The tightest of some readings of both clocks.
  static void sample(uint64_t* ticks, uint64_t* ns) {
    uint64_t best = ~0ull;
    for (int i = 0; i < 20; ++i) {
      uint64_t before = __rdtsc();
      uint64_t time = monotonic_ns();
      uint64_t after = __rdtsc();
      if (after - before < best) {
        best = after - before;
        *ticks = before + best / 2;
        *ns = time;
      }
    }
  }
#endif

  bool usable_ = false;
  bool calibrated_ = false;  // `now` asks the kernel until then
  uint64_t first_ticks_ = 0, first_ns_ = 0;
  uint64_t base_ticks_ = 0, base_ns_ = 0;
  uint64_t rate_ = 0;  // nanoseconds a tick, times 2^32
};

}  // namespace nx
