// A coverage-guided fuzzer of the native JSON reader and of what nests its events, in one process.
//
//   fuzz/run_json_reader SECONDS      builds it (g++, address and undefined-behaviour sanitizers) and runs it
//   json_reader FILE...               reads files once: to repeat a finding
//
// Every input is read twice, whole and in small pieces: both must give the same records, texts and
// faults. What fails is left in the folder of findings.
#include <sanitizer/common_interface_defs.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <set>

#include "../neuron_explorer/_native/src/chrome/nest.h"
#include "../neuron_explorer/_native/src/chrome/stream.h"

namespace {

constexpr size_t kMap = 1 << 16;
constexpr size_t kLongest = 4096;
constexpr size_t kMostKept = 20000;
uint8_t counters[kMap];
uintptr_t previous_place = 0;
std::string current, findings = "findings";

const char* const kWords[] = {
    "{\"ph\":\"X\",\"ts\":1,\"dur\":2,\"pid\":1,\"tid\":1,\"name\":\"a\"}", "\"ph\":", "\"ts\":", "\"dur\":", "\"args\":{",
    "\"name\":\"", "\"cat\":\"", "\"pid\":", "\"tid\":", "\"id\":", "\"External id\":", "\"Input Dims\":[[1,2],[]]",
    "\"Call stack\":\"a;b\"", "\"bytes\":", "\"traceEvents\":[", "{", "}", "[", "]", ",", ":", "\"", "\\", "\\u0041",
    "\\ud800", "\\u12", "NaN", "-Infinity", "null", "true", "1e400", "-0", "1.5", "\"1.5\"", "9223372036854775807",
    "9223372036854775808", "-9223372036854775808", "123456789012345678901234567890", ".5", "00", "1e", "\xEF\xBB\xBF",
    "\n", " ", "\xff", "\xc3", "{}", "]}", "},{\"ph\":\"B\"", "\"s\":\"g\"", "[[[[[[[[", "{\"x\":{\"x\":{\"x\":",
};

struct Answer {
  std::vector<chrome::Record> records;
  std::vector<std::string> texts;
  std::vector<std::pair<std::string, std::string>> header;
  chrome::Faults faults;
  bool complete = false;
};

Answer read(const std::string& text, size_t piece) {
  chrome::Stream stream;
  stream.events.texts.max_bytes = 2000;
  int slot = 0;
  for (const char* key : {"External id", "bytes", "correlation"}) stream.events.keys[key] = {false, slot++};
  slot = 0;
  for (const char* key : {"Input Dims", "Call stack"}) stream.events.keys[key] = {true, slot++};
  for (size_t at = 0; at < text.size(); at += piece) {
    size_t size = std::min(piece, text.size() - at);
    std::vector<char> exact(text.begin() + static_cast<long>(at), text.begin() + static_cast<long>(at + size));
    stream.feed(exact.data(), size, false);
  }
  stream.feed("", 0, true);
  Answer answer;
  answer.records = stream.records;
  for (size_t i = 1; i < stream.events.texts.size(); ++i) answer.texts.emplace_back(stream.events.texts.text(i));
  answer.header = stream.header;
  answer.faults = stream.faults;
  answer.complete = stream.complete;
  return answer;
}

// Nesting takes what collecting lets through: times below 2^62, in order.
void nest(std::vector<chrome::Record> records) {
  constexpr int64_t limit = int64_t{1} << 62;
  std::erase_if(records, [](const auto& r) { return r.start > limit || r.start < -limit || r.duration > limit; });
  std::stable_sort(records.begin(), records.end(), [](const auto& a, const auto& b) { return a.start < b.start; });
  size_t n = records.size();
  std::vector<int32_t> lane(n), name(n), stack(n);
  std::vector<int64_t> start(n), duration(n), parent(n), self(n);
  std::vector<uint8_t> kind(n);
  std::vector<int16_t> depth(n);
  for (size_t i = 0; i < n; ++i) {
    lane[i] = records[i].tid & 3;
    name[i] = records[i].name;
    start[i] = records[i].start;
    duration[i] = std::max<int64_t>(records[i].duration, -1);
    kind[i] = records[i].phase & 3;
  }
  chrome::Nest nest;
  nest.max_nodes = 5;
  nest.add(n, lane.data(), start.data(), duration.data(), kind.data(), name.data(), parent.data(), depth.data(),
           self.data(), stack.data());
  nest.finish();
}

void leave(const char* kind) {
  std::filesystem::create_directories(findings);
  std::ofstream(findings + "/" + kind + "-" + std::to_string(std::hash<std::string>{}(current)), std::ios::binary) << current;
}

void died() { leave("crash"); }

void one(const std::string& text) {
  current = text;
  alarm(20);  // a hang is a finding too
  Answer whole = read(text, text.size() ? text.size() : 1);
  Answer parts = read(text, 1 + std::hash<std::string>{}(text) % 40);
  bool same = whole.texts == parts.texts && whole.header == parts.header && whole.complete == parts.complete &&
              whole.records.size() == parts.records.size() && !memcmp(&whole.faults, &parts.faults, sizeof(chrome::Faults));
  for (size_t i = 0; same && i < whole.records.size(); ++i) {
    const auto &a = whole.records[i], &b = parts.records[i];
    same = a.start == b.start && a.duration == b.duration && a.offset == b.offset && a.name == b.name &&
           a.rest == b.rest && a.flags == b.flags && a.phase == b.phase;
  }
  if (!same) {
    fprintf(stderr, "read otherwise in pieces\n");
    leave("pieces");
    abort();
  }
  nest(whole.records);
}

std::string changed(std::string text, const std::vector<std::string>& corpus, std::mt19937_64& random) {
  auto below = [&](size_t n) { return n ? static_cast<size_t>(random() % n) : 0; };
  for (size_t times = 1 + below(6); times; --times) {
    size_t at = below(text.size() + 1), size = below(std::min<size_t>(text.size() - at, 40) + 1);
    switch (below(8)) {
      case 0: text.erase(at, size); break;
      case 1: text.insert(at, text.substr(at, size)); break;
      case 2:
      case 3: text.insert(at, kWords[below(std::size(kWords))]); break;
      case 4: text.replace(at, size, kWords[below(std::size(kWords))]); break;
      case 5: if (at < text.size()) text[at] = static_cast<char>(random()); break;
      case 6: if (at < text.size()) text[at] = static_cast<char>(text[at] ^ (1 << below(8))); break;
      case 7: {
        const std::string& other = corpus[below(corpus.size())];
        size_t from = below(other.size() + 1);
        text = text.substr(0, at) + other.substr(from);
      }
    }
  }
  text.resize(std::min(text.size(), kLongest));
  return text;
}

bool is_new(std::vector<uint8_t>& seen) {
  bool found = false;
  for (size_t i = 0; i < kMap; ++i) {
    if (!counters[i]) continue;
    uint8_t count = counters[i];  // as classes of how often: 1, 2, 3, 4-7, 8-15, 16-31, 32-127, more
    uint8_t bit = count < 4 ? 1 << (count - 1) : count < 8 ? 8 : count < 16 ? 16 : count < 32 ? 32 : count < 128 ? 64 : 128;
    if (!(seen[i] & bit)) {
      seen[i] |= bit;
      found = true;
    }
  }
  return found;
}

}  // namespace

// Called by g++ at every edge (-fsanitize-coverage=trace-pc).
extern "C" __attribute__((no_sanitize("address", "undefined"), no_sanitize_coverage)) void __sanitizer_cov_trace_pc() {
  uintptr_t place = reinterpret_cast<uintptr_t>(__builtin_return_address(0));
  uint8_t& count = counters[(place ^ (previous_place >> 1)) % kMap];
  if (count < 255) ++count;
  previous_place = place;
}

int main(int argc, char** argv) {
  __sanitizer_set_death_callback(died);
  if (argc < 4 || std::string(argv[1]) != "--for") {
    for (int i = 1; i < argc; ++i) {
      std::ifstream file(argv[i], std::ios::binary);
      one({std::istreambuf_iterator<char>(file), {}});
    }
    return 0;
  }
  // --for SECONDS FOLDER [SEED]: FOLDER/corpus is read and added to, FOLDER/findings gets what fails.
  std::string folder = argv[3];
  findings = folder + "/findings";
  std::filesystem::create_directories(folder + "/corpus");
  std::mt19937_64 random(argc > 4 ? strtoull(argv[4], nullptr, 10) : std::random_device{}());
  std::vector<std::string> corpus{"{\"traceEvents\":[" + std::string(kWords[0]) + "," + kWords[0] + "]}"};
  for (const auto& entry : std::filesystem::directory_iterator(folder + "/corpus")) {
    std::ifstream file(entry.path(), std::ios::binary);
    std::string text{std::istreambuf_iterator<char>(file), {}};
    corpus.push_back(text.substr(0, kLongest));
  }
  std::vector<uint8_t> seen(kMap);
  for (const auto& text : corpus) {
    std::fill(counters, counters + kMap, 0);
    one(text);
    is_new(seen);
  }
  auto begin = std::chrono::steady_clock::now(), said = begin;
  std::chrono::seconds lasts(strtol(argv[2], nullptr, 10));
  uint64_t runs = 0;
  for (auto now = begin; now - begin < lasts; now = std::chrono::steady_clock::now()) {
    std::string text = changed(corpus[random() % corpus.size()], corpus, random);
    std::fill(counters, counters + kMap, 0);
    previous_place = 0;
    one(text);
    ++runs;
    if (is_new(seen) && corpus.size() < kMostKept) {
      corpus.push_back(text);
      std::ofstream(folder + "/corpus/" + std::to_string(std::hash<std::string>{}(text)), std::ios::binary) << text;
    }
    if (now - said > std::chrono::seconds(30)) {
      said = now;
      size_t edges = static_cast<size_t>(std::count_if(seen.begin(), seen.end(), [](uint8_t s) { return s != 0; }));
      fprintf(stderr, "%lu inputs, %zu kept, %zu edges\n", runs, corpus.size(), edges);
    }
  }
  size_t edges = static_cast<size_t>(std::count_if(seen.begin(), seen.end(), [](uint8_t s) { return s != 0; }));
  fprintf(stderr, "done: %lu inputs, %zu kept, %zu edges\n", runs, corpus.size(), edges);
}
