// What the recorder keeps for the process and the thread: the active recording, what an observed
// event carries from its start to its end, and how a failure ends the recording.
#pragma once

#include <ATen/record_function.h>
#include <stdio.h>

#include "session.h"

namespace nx {

static Clock g_clock;
static inline uint64_t now_ns() { return g_clock.now(); }

static std::atomic<Session*> g_session{nullptr};
static std::atomic<uint64_t> g_generation{0};
static std::atomic<uint64_t> g_module_epoch{1};
static std::mutex g_control;             // start, stop, fork
static Session* g_forked_from = nullptr;  // in a forked child that has not recorded yet
static std::atomic<bool> g_child_pending{false};
static at::CallbackHandle g_handle = 0;
static const char* g_no_overload = nullptr;  // what overload_name() gives for a name that is no operator's
constexpr uint32_t kSkipBit = 0x80000000u;
static bool g_has_handle = false;
static bool g_paused = false;

static thread_local ThreadState* t_state __attribute__((tls_model("initial-exec"))) = nullptr;

struct Context final : at::ObserverContext {
  ThreadState* thread;
  uint64_t generation;
  uint64_t start;
  uint64_t sequence;
  uint32_t index;
  uint8_t kind;
  bool flight = false;  // encloses nothing, and ends on any thread

  static void* operator new(size_t size);
  static void operator delete(void* p);
};

struct FreeContext {
  FreeContext* next;
};
static thread_local FreeContext* t_free __attribute__((tls_model("initial-exec"))) = nullptr;
static thread_local uint32_t t_free_count __attribute__((tls_model("initial-exec"))) = 0;

void* Context::operator new(size_t size) {
  if (t_free != nullptr) {
    void* p = t_free;
    t_free = t_free->next;
    --t_free_count;
    return p;
  }
  return ::malloc(size);
}

void Context::operator delete(void* p) {
  if (t_free_count >= 256) {
    ::free(p);
    return;
  }
  auto* f = static_cast<FreeContext*>(p);
  f->next = t_free;
  t_free = f;
  ++t_free_count;
}

static void fail(Session* s, int error) {
  int expected = 0;
  s->failed.compare_exchange_strong(expected, error == 0 ? EIO : error);
  if (!s->failure_printed.exchange(true)) {
    ::fprintf(stderr,
              "neuron-explorer: recording stopped: %s. The program goes on; what was recorded until "
              "now is kept.\n",
              ::strerror(s->failed.load()));
  }
}

}  // namespace nx
