// Opening a recording in this process or in a forked child of it, and switching the observer on and off.
#pragma once

#include <ATen/record_function.h>

#include "memory.h"

namespace nx {

static bool write_file(const std::string& path, const std::string& text) {
  std::string temporary = path + ".tmp";
  FILE* f = ::fopen(temporary.c_str(), "we");
  if (f == nullptr) return false;
  bool ok = ::fwrite(text.data(), 1, text.size(), f) == text.size();
  ok = ::fclose(f) == 0 && ok;
  return ok && ::rename(temporary.c_str(), path.c_str()) == 0;
}

static Session* open_session(const Options& options, const char* role, int* error) {
  std::string base = options.directory + "/p" + std::to_string(::getpid());
  std::string directory = base;
  for (int i = 2; ::mkdir(directory.c_str(), 0700) != 0; ++i) {
    if (errno != EEXIST || i > 1000) {
      *error = errno;
      return nullptr;
    }
    directory = base + "-" + std::to_string(i);
  }
  auto* s = new Session();
  s->generation = g_generation.fetch_add(1) + 1;
  s->options = options;
  s->process_directory = directory;
  int e = s->tables.open(directory + "/tables.log");
  char text[256];
  ::snprintf(text, sizeof text,
             "{\"pid\": %d, \"parent_pid\": %d, \"role\": \"%s\", \"start_monotonic_ns\": %llu, \"name\": \"%s\"}\n",
             ::getpid(), ::getppid(), role, static_cast<unsigned long long>(now_ns()), role);
  if (e == 0 && !write_file(directory + "/process.json", text)) e = errno ? errno : EIO;
  if (e != 0) {
    *error = e;
    return nullptr;
  }
  return s;
}

static void add_callback() {
  if (g_no_overload == nullptr) {
    at::RecordFunction plain(at::RecordScope::USER_SCOPE);
    g_no_overload = plain.overload_name();
  }
  Session* s = g_session.load();
  at::RecordFunctionCallback callback(on_start, on_end);
  callback.needsInputs(s->options.shapes || s->options.tensors);
  callback.scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION,
                   at::RecordScope::TORCHSCRIPT_FUNCTION, at::RecordScope::USER_SCOPE});
  g_handle = at::addGlobalCallback(callback);
  g_has_handle = true;
}

static void drop_callback() {
  if (g_has_handle) at::removeCallback(g_handle);
  g_has_handle = false;
}

static PyObject* counters(Session* s) {
  uint64_t events = 0, tracing = 0;
  size_t threads;
  {
    std::lock_guard<std::mutex> lock(s->threads_mutex);
    threads = s->threads.size();
    for (ThreadState* t : s->threads) {
      events += t->count;
      tracing += t->tracing_ops;
    }
  }
  int failed = s->failed.load();
  return Py_BuildValue("{s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:n,s:z}", "events", events, "tracing_ops", tracing, "dropped",
                       s->dropped.load(), "signatures_capped", s->tables.signatures_capped, "stacks_capped",
                       s->tables.stacks_capped, "stacks_truncated", s->cut_stacks.load(), "late_ends",
                       s->late_ends.load(), "threads", static_cast<Py_ssize_t>(threads), "failed",
                       failed ? ::strerror(failed) : nullptr);
}

static void before_fork() {
  g_control.lock();
  Session* s = g_session.load();
  if (s != nullptr) {
    s->threads_mutex.lock();
    s->tables.mutex.lock();
  }
}

static void after_fork_parent() {
  Session* s = g_session.load();
  if (s != nullptr) {
    s->tables.mutex.unlock();
    s->threads_mutex.unlock();
  }
  g_control.unlock();
}

static void after_fork_child() {
  Session* s = g_session.load();
  if (s != nullptr) {
    s->tables.mutex.unlock();
    s->threads_mutex.unlock();
    for (ThreadState* t : s->threads) {
      t->events.abandon();
      t->tensors.abandon();
    }
    s->tables.close();
    memory_after_fork();
    g_session.store(nullptr);
    g_forked_from = s;
    g_child_pending.store(s->failed.load() == 0);
  }
  t_state = nullptr;
  g_control.unlock();
}

}  // namespace nx
