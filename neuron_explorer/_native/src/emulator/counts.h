// What the device notes about the operators it runs: fallbacks, and compiled artifacts.
#pragma once

#include <ATen/core/ivalue.h>

#include <string>
#include <vector>

namespace nx {

struct FallbackCount {
  std::string op;
  uint64_t calls = 0;
  uint64_t to_host = 0;    // bytes
  uint64_t to_device = 0;  // bytes
};

void note_executed(const std::string& op);
void note_fallback(const std::string& op, uint64_t to_host, uint64_t to_device);
std::vector<FallbackCount> fallback_counts();
std::vector<std::string> executed_ops();
void clear_counts();

// One compiled artifact: an operator with the shapes, dtypes and whole-number arguments.
struct Artifact {
  std::string key;
  std::string op;
  std::string signature;
  uint64_t hits = 0;
  bool from_disk = false;  // known before this process began
};

// Keys of artifacts that earlier processes left on disk.
void set_known_artifacts(std::vector<std::string> keys);
// Notes one use; the first one of an artifact is shown.
void use_artifact(const std::string& op, c10::ArrayRef<c10::IValue> arguments);
// Inside a compiled graph, on this thread, operators are no artifacts of their own.
void enter_graph();
void leave_graph();
// A compilation as a profiler sees it: the range `neuron::compile` with the arguments key,
// signature, and "miss" or "disk".
void show_compilation(const std::string& key, const std::string& signature, const char* cache);
std::vector<Artifact> artifacts();
void clear_artifacts();

}  // namespace nx
