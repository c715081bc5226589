// A thread joins a recording at its first event and gives its files back when it ends.
#pragma once

#include <ATen/record_function.h>

#include "state.h"

namespace nx {

// The thread's own name; empty where it only carries the program's.
static std::string thread_name(bool main) {
  if (main) return "main thread";
  char name[32] = {0}, program[32] = {0};
  pthread_getname_np(pthread_self(), name, sizeof name);
  FILE* f = ::fopen("/proc/self/comm", "re");
  if (f != nullptr) {
    if (::fgets(program, sizeof program, f) != nullptr) program[::strcspn(program, "\n")] = 0;
    ::fclose(f);
  }
  return ::strcmp(name, program) == 0 ? "" : name;
}

static Session* open_session(const Options& options, const char* role, int* error);

// Nothing in a forked child writes to the parent's files: the child opens its own.
static Session* adopt_child() {
  std::lock_guard<std::mutex> lock(g_control);
  Session* s = g_session.load();
  if (s != nullptr || g_forked_from == nullptr) return s;
  int error = 0;
  Session* child = open_session(g_forked_from->options, "forked", &error);
  g_forked_from = nullptr;
  g_child_pending.store(false);
  if (child != nullptr) g_session.store(child);
  return child;
}

// Gives the files of a thread that ends back, so that many short threads cost no descriptors.
struct ThreadExit {
  bool armed = false;
  ~ThreadExit() {
    while (t_free != nullptr) {
      FreeContext* next = t_free->next;
      ::free(t_free);
      t_free = next;
    }
    t_free_count = 256;  // what is deleted from here on goes to the allocator
    ThreadState* t = t_state;
    t_state = nullptr;
    Session* s = g_session.load();
    if (t == nullptr || s == nullptr || t->generation != s->generation) return;
    std::lock_guard<std::mutex> lock(s->threads_mutex);
    if (g_session.load() != s) return;
    t->events.close();
    if (t->has_tensors) t->tensors.close();
  }
};
static thread_local ThreadExit t_exit;

static ThreadState* attach(Session* s) {
  std::lock_guard<std::mutex> lock(s->threads_mutex);
  if (g_session.load() != s) return nullptr;
  t_exit.armed = true;
  auto* t = new ThreadState();
  t->generation = s->generation;
  t->number = static_cast<uint32_t>(s->threads.size());
  long tid = ::syscall(SYS_gettid);
  uint64_t logical = at::RecordFunction::currentThreadId();
  std::string base = s->process_directory + "/t" + std::to_string(t->number);
  int error = t->events.open(base + ".events", s->options.map, s->options.window);
  if (error == 0 && s->options.tensors) {
    error = t->tensors.open(base + ".tensors", s->options.map, s->options.window);
    t->has_tensors = error == 0;
  }
  if (error == 0) {
    std::lock_guard<std::mutex> tables(s->tables.mutex);
    Entry e(kTableThread);
    e.u32(t->number).i64(tid).u64(logical).text(thread_name(tid == ::getpid()));
    if (!s->tables.write(e)) error = s->tables.error();
  }
  if (error != 0) {
    delete t;
    fail(s, error);
    return nullptr;
  }
  auto* header = static_cast<FileHeader*>(t->events.take(sizeof(FileHeader)));
  if (header == nullptr) {
    fail(s, t->events.error());
    delete t;
    return nullptr;
  }
  memset(header, 0, sizeof *header);
  memcpy(header->magic, "NXEV", 4);
  header->version = 1;
  header->record_size = sizeof(Record);
  header->thread = t->number;
  header->os_thread = tid;
  header->logical_thread = logical;
  t->open.reserve(64);
  // The main thread keeps its Python state for life; threads made in C may come and go with theirs.
  if (tid == ::getpid()) t->python = PyGILState_GetThisThreadState();
  s->threads.push_back(t);
  t_state = t;
  return t;
}

}  // namespace nx
