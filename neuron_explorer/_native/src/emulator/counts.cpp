#include "counts.h"

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>

#include <map>
#include <mutex>
#include <set>
#include <unordered_map>
#include <unordered_set>

namespace nx {

static std::mutex g_mutex;
static std::map<std::string, FallbackCount> g_fallbacks;
static std::set<std::string> g_executed;
static std::unordered_map<uint64_t, Artifact> g_artifacts;
static std::unordered_set<std::string> g_known;

void note_executed(const std::string& op) {
  std::lock_guard<std::mutex> lock(g_mutex);
  g_executed.insert(op);
}

void note_fallback(const std::string& op, uint64_t to_host, uint64_t to_device) {
  std::lock_guard<std::mutex> lock(g_mutex);
  g_executed.insert(op);
  auto& f = g_fallbacks[op];
  f.op = op;
  ++f.calls;
  f.to_host += to_host;
  f.to_device += to_device;
}

std::vector<FallbackCount> fallback_counts() {
  std::lock_guard<std::mutex> lock(g_mutex);
  std::vector<FallbackCount> out;
  for (auto& f : g_fallbacks) out.push_back(f.second);
  return out;
}

std::vector<std::string> executed_ops() {
  std::lock_guard<std::mutex> lock(g_mutex);
  return {g_executed.begin(), g_executed.end()};
}

void clear_counts() {
  std::lock_guard<std::mutex> lock(g_mutex);
  g_fallbacks.clear();
  g_executed.clear();
}

// ---------------------------------------------------------------- artifacts

static uint64_t mix(uint64_t h, uint64_t v) {
  h = (h ^ v) * 0x9E3779B97F4A7C15ull;
  return h ^ (h >> 29);
}

static uint64_t hash_text(const std::string& text) {
  uint64_t h = 0x5EED;
  for (unsigned char c : text) h = mix(h, c);
  return h;
}

static uint64_t hash_value(uint64_t h, const c10::IValue& v) {
  if (v.isTensor()) {
    const at::Tensor& t = v.toTensor();
    if (!t.defined()) return mix(h, 1);
    h = mix(h, static_cast<uint64_t>(static_cast<int>(t.scalar_type())) + 2);
    for (int64_t s : t.sizes()) h = mix(h, static_cast<uint64_t>(s));
    return mix(h, 0xAB);
  }
  if (v.isInt()) return mix(h, static_cast<uint64_t>(v.toInt()) + 7);
  if (v.isBool()) return mix(h, v.toBool() ? 5 : 6);
  if (v.isList())
    for (const c10::IValue& e : v.toListRef()) h = hash_value(h, e);
  return mix(h, 0xCD);
}

static constexpr size_t kMaxSignature = 500;

static void describe(std::string& out, const c10::IValue& v) {
  if (v.isTensor() && v.toTensor().defined()) {
    const at::Tensor& t = v.toTensor();
    out += c10::toString(t.scalar_type());
    out += '[';
    for (int64_t i = 0; i < t.dim(); ++i) out += (i ? "," : "") + std::to_string(t.size(i));
    out += ']';
  } else if (v.isList()) {
    out += '(';
    size_t n = 0;
    for (const c10::IValue& e : v.toListRef()) {
      if (n++) out += ' ';
      if (n > 8) {
        out += "...";
        break;
      }
      describe(out, e);
    }
    out += ')';
  } else if (v.isInt()) {
    out += std::to_string(v.toInt());
  } else if (v.isBool()) {
    out += v.toBool() ? "true" : "false";
  } else {
    out += '-';
  }
}

void set_known_artifacts(std::vector<std::string> keys) {
  std::lock_guard<std::mutex> lock(g_mutex);
  g_known = {keys.begin(), keys.end()};
}

// True when the artifact is new; then `made` is a copy of it.
static bool note(const std::string& op, c10::ArrayRef<c10::IValue> arguments, Artifact* made) {
  uint64_t key = hash_text(op);
  for (const c10::IValue& v : arguments) key = hash_value(key, v);
  std::lock_guard<std::mutex> lock(g_mutex);
  auto it = g_artifacts.find(key);
  if (it != g_artifacts.end()) {
    ++it->second.hits;
    return false;
  }
  g_executed.insert(op);
  char text[32];
  snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(key));
  made->key = text;
  made->op = op;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (i) made->signature += ' ';
    if (made->signature.size() > kMaxSignature) break;
    describe(made->signature, arguments[i]);
  }
  made->from_disk = g_known.count(made->key) != 0;
  g_artifacts.emplace(key, *made);
  return true;
}

static thread_local int t_graphs = 0;

void enter_graph() { ++t_graphs; }
void leave_graph() { --t_graphs; }

void use_artifact(const std::string& op, c10::ArrayRef<c10::IValue> arguments) {
  if (t_graphs > 0) return note_executed(op);
  Artifact made;
  if (note(op, arguments, &made)) show_compilation(made.key, made.signature, made.from_disk ? "disk" : "miss");
}

void show_compilation(const std::string& key, const std::string& signature, const char* cache) {
  // As a function, not a range: recorders keep the arguments of functions.
  at::RecordFunction range(at::RecordScope::FUNCTION);
  if (!range.isActive()) return;
  std::vector<c10::IValue> told = {key, signature, cache};
  range.before("neuron::compile", c10::ArrayRef<const c10::IValue>(told.data(), told.size()));
}

std::vector<Artifact> artifacts() {
  std::lock_guard<std::mutex> lock(g_mutex);
  std::vector<Artifact> out;
  for (auto& a : g_artifacts) out.push_back(a.second);
  return out;
}

void clear_artifacts() {
  std::lock_guard<std::mutex> lock(g_mutex);
  g_artifacts.clear();
}

}  // namespace nx
