// What one recording shares between threads: the intern tables and the state of each thread.
#pragma once

#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "clock.h"
#include "collectives.h"
#include "frames.h"
#include "hashing.h"
#include "spool.h"

namespace nx {

constexpr size_t kMaxFrames = 1000;         // frames kept of one stack, innermost first
constexpr uint32_t kMaxFrameNodes = 4u << 20;  // nodes of the calling-context tree
constexpr uint32_t kMaxCodes = 1u << 18;
constexpr uint32_t kMaxSignatures = 1u << 18;
constexpr uint32_t kMaxNames = 1u << 18;
constexpr uint32_t kManyFloats = 64;  // signatures of one operator before floats are left out

struct Options {
  std::string directory;  // the spool directory, holding p<pid>/
  bool stacks = true;
  bool shapes = true;
  bool tensors = false;
  bool memory = false;
  bool map = true;
  size_t window = 1 << 18;  // of the ring of each thread, bytes
  PyObject* namer = nullptr;              // borrowed for the process's lifetime
  PyCodeObject* module_call = nullptr;    // code of Module._wrapped_call_impl
  PyObject* optimizers = nullptr;         // called with each optimizer whose step begins; borrowed
  PyCodeObject* optimizer_call = nullptr;  // code around an optimizer's step, its first local the arguments
};

struct Context;

// An event of this thread that has begun and not ended.
struct Open {
  uint32_t index;
  uint32_t stack;
  uint32_t module;
  uint32_t node;
  uint64_t children;
  const void* frame;
  uintptr_t instruction;
  uint64_t start;
  uint8_t kind;
  bool collective = false;  // a collective, outermost
};

// A direct-mapped slot of the names found by address; the text guards against reuse.
struct NameSlot {
  const char* name = nullptr;
  uint32_t id = 0;
  char text[16] = {0};  // its first bytes; a std::string has at least 16
};
constexpr size_t kNameSlots = 512;  // a power of two

// Ids of a row about memory; the word and the device it is of.
struct MemoryName {
  uint32_t word = 0;  // plus 1; 0: none
  uint32_t device = 0;
  uint32_t name = 0;
  uint32_t signature = 0;
};
constexpr size_t kMemoryNames = 32;

struct ThreadState {
  uint64_t generation = 0;
  uint32_t number = 0;
  GrowingFile events;
  GrowingFile tensors;
  bool has_tensors = false;
  uint32_t count = 0;
  uint64_t last_start = 0;
  std::vector<Open> open;
  IdCache stacks, modules, signatures, names;
  NameSlot by_address[kNameSlots];
  MemoryName memory_names[kMemoryNames];
  std::vector<bool> coarse_names;  // operators whose floats are left out of signatures, by name id
  uint64_t module_epoch = 0;
  std::vector<PyCodeObject*> codes;
  std::vector<int> offsets;
  std::vector<PyObject*> module_chain;
  uint64_t tracing_ops = 0;
  bool compiling = false;  // a compilation is under way on this thread: what runs is the compiler's
  PyThreadState* python = nullptr;  // of the main thread, where it cannot change
  std::atomic<bool> inside{false};  // a callback of this thread is running
  bool in_python = false;           // it runs Python code of ours
  int64_t collective = -1;          // the last collective that began: thread << 32 | record
  std::mutex late_mutex;
  std::vector<uint32_t> late;       // ended on another thread, still in `open`
  std::atomic<uint32_t> late_count{0};

  void begin_frames() {
    codes.clear();
    offsets.clear();
    module_chain.clear();
  }
};

struct NameInfo {
  std::string text;
  uint8_t scope;
  bool skip;
  uint32_t float_signatures = 0;
};

struct ModuleInstance {
  uint32_t number;
  PyObject* weak;
};

// Names, signatures, code objects, frames and modules of one process, each written to
// tables.log before the first event that refers to it. All calls hold `mutex`.
class Tables {
 public:
  std::mutex mutex;

  int open(const std::string& path) {
    fd_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600);
    return fd_ < 0 ? errno : 0;
  }
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  int error() const { return error_; }

  bool write(Entry& entry) {
    const std::string& bytes = entry.finish();
    if (error_ != 0) return false;
    ssize_t n = ::write(fd_, bytes.data(), bytes.size());
    if (n != static_cast<ssize_t>(bytes.size())) {
      error_ = n < 0 ? errno : ENOSPC;
      return false;
    }
    return true;
  }

  uint32_t name(const std::string& text, uint8_t scope) {
    auto key = std::make_pair(text, scope);
    auto it = name_ids_.find(key);
    if (it != name_ids_.end()) return it->second;
    if (names.size() >= kMaxNames) return 0;
    uint32_t id = static_cast<uint32_t>(names.size()) + 1;
    Entry e(kTableName);
    e.u32(id).u8(scope).text(text);
    if (!write(e)) return 0;
    bool skip = text.rfind("profiler::_record_function_", 0) == 0;
    names.push_back(NameInfo{text, scope, skip});
    name_ids_.emplace(std::move(key), id);
    return id;
  }

  std::vector<NameInfo> names;  // by id - 1

  std::unordered_map<uint64_t, uint32_t> signature_ids;
  uint32_t signature_count = 0;
  uint64_t signatures_capped = 0;

  std::unordered_map<uint64_t, uint32_t> stack_ids;  // hash of a whole stack → frame node
  uint64_t stacks_capped = 0;

  // Needs the GIL for a code object that was not seen before, so callers hold it.
  uint32_t code(PyCodeObject* c, bool* tracing) {
    auto it = codes_.find(c);
    if (it != codes_.end()) {
      *tracing = it->second.tracing;
      return it->second.id;
    }
    if (codes_.size() >= kMaxCodes) return 0;
    uint32_t id = static_cast<uint32_t>(codes_.size()) + 1;
    std::string file = utf8(c->co_filename);
#if PY_VERSION_HEX >= 0x030B0000
    std::string function = utf8(c->co_qualname);
#else
    std::string function = utf8(c->co_name);
#endif
    Entry e(kTableCode);
    e.u32(id).i32(c->co_firstlineno).text(file).text(function);
    if (!write(e)) return 0;
    Py_INCREF(c);
    bool t = is_tracing_code(file, function);
    codes_.emplace(c, CodeInfo{id, t});
    *tracing = t;
    return id;
  }

  uint32_t frame(uint32_t parent, uint32_t code, int line) {
    uint64_t key = mix(mix(mix(0x77, parent), code), static_cast<uint64_t>(line));
    auto it = frame_ids_.find(key);
    if (it != frame_ids_.end()) return it->second;
    if (frame_tracing.size() >= kMaxFrameNodes) return 0;
    uint32_t id = static_cast<uint32_t>(frame_tracing.size()) + 1;
    Entry e(kTableFrame);
    e.u32(id).u32(parent).u32(code).i32(line);
    if (!write(e)) return 0;
    frame_ids_.emplace(key, id);
    frame_tracing.push_back(false);
    return id;
  }

  std::vector<bool> frame_tracing;  // by id - 1: an ancestor or itself is a compiler at work

  std::unordered_map<PyObject*, ModuleInstance> instances;
  uint32_t instance_count = 0;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> module_ids;  // (parent, instance) → id
  std::unordered_map<uint64_t, uint32_t> module_chain_ids;

  void release_python() {
    for (auto& c : codes_) Py_DECREF(c.first);
    codes_.clear();
    for (auto& i : instances) Py_XDECREF(i.second.weak);
    instances.clear();
  }

  static std::string utf8(PyObject* text) {
    if (text == nullptr || !PyUnicode_Check(text)) return "?";
    PyObject* bytes = PyUnicode_AsEncodedString(text, "utf-8", "backslashreplace");
    if (bytes == nullptr) {
      PyErr_Clear();
      return "?";
    }
    std::string out(PyBytes_AS_STRING(bytes), static_cast<size_t>(PyBytes_GET_SIZE(bytes)));
    Py_DECREF(bytes);
    return out;
  }

 private:
  struct CodeInfo {
    uint32_t id;
    bool tracing;
  };

  static bool ends_with(const std::string& s, const char* tail) {
    size_t n = strlen(tail);
    return s.size() >= n && s.compare(s.size() - n, n, tail) == 0;
  }

  // Code that only runs while a compiler traces or lowers a graph. What these files run at
  // launch time (`runtime_wrappers.py`, `output_code.py`) is not among them.
  static bool is_tracing_code(const std::string& file, const std::string& function) {
    if (file.find("torch") == std::string::npos) return false;
    if (ends_with(file, "torch/_dynamo/convert_frame.py")) return true;
    if (ends_with(file, "torch/_dynamo/output_graph.py")) return true;
    if (ends_with(file, "torch/_inductor/compile_fx.py"))
      return function.find("compil") != std::string::npos || function.find("fx_codegen") != std::string::npos;
    if (ends_with(file, "torch/_functorch/aot_autograd.py"))
      return function.find("create_aot_dispatcher_function") != std::string::npos;
    if (ends_with(file, "torch/_functorch/_aot_autograd/graph_capture.py")) return true;
    if (ends_with(file, "torch/_functorch/_aot_autograd/graph_compile.py"))
      return function.find("aot_stage") != std::string::npos || function.find("aot_dispatch") != std::string::npos;
    if (ends_with(file, "torch/fx/experimental/proxy_tensor.py"))
      return function.find("dispatch_trace") != std::string::npos || function.find("_trace_inner") != std::string::npos;
    return false;
  }

  int fd_ = -1;
  int error_ = 0;
  std::map<std::pair<std::string, uint8_t>, uint32_t> name_ids_;
  std::unordered_map<PyCodeObject*, CodeInfo> codes_;
  std::unordered_map<uint64_t, uint32_t> frame_ids_;
};

struct Session {
  uint64_t generation = 0;
  Options options;
  std::string process_directory;
  Tables tables;
  std::mutex threads_mutex;
  std::vector<ThreadState*> threads;
  std::atomic<uint64_t> dropped{0};
  std::atomic<uint64_t> late_ends{0};
  std::atomic<uint64_t> cut_stacks{0};
  GroupCounters groups;
  InFlight in_flight;
  std::atomic<int> failed{0};
  std::atomic<bool> failure_printed{false};
};

}  // namespace nx
