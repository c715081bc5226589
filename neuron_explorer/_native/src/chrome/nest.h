// What encloses what: events in order of start (longer first), lane by lane.
//
// The twin is trace/importers/chrome_json/nest.py.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "event.h"

namespace chrome {

enum Class : uint8_t { kSlice = 0, kPython = 1, kInstant = 2, kAlone = 3 };

struct Open {
  int64_t end, row, children;
  int32_t node;
};

class Nest {
 public:
  std::vector<int64_t> late_row, late_self;  // of slices that ended in a later call than they began
  std::vector<int32_t> node_parent, node_name;
  int64_t crossing = 0;   // slices that end after what they begin in
  int64_t refused = 0;    // frames beyond the bound
  size_t max_nodes = 4'000'000;

  Nest() : node_parent(1, 0), node_name(1, 0) {}

  // Arrays of `count`; rows are numbered on from the previous call.
  void add(size_t count, const int32_t* lane, const int64_t* start, const int64_t* duration, const uint8_t* kind,
           const int32_t* name, int64_t* parent, int16_t* depth, int64_t* self, int32_t* stack) {
    late_row.clear();
    late_self.clear();
    int64_t first = rows_;
    for (size_t i = 0; i < count; ++i, ++rows_) {
      if (static_cast<size_t>(lane[i]) >= lanes_.size()) lanes_.resize(static_cast<size_t>(lane[i]) + 1);
      Lane& on = lanes_[static_cast<size_t>(lane[i])];
      int64_t from = start[i], lasts = duration[i];
      if (kind[i] == kPython) {
        while (!on.python.empty() && on.python.back().end <= from) on.python.pop_back();
        int32_t above = on.python.empty() ? 0 : on.python.back().node;
        int32_t node = node_of(above, name[i]);
        if (on.python.size() < kDeepest) on.python.push_back({from + (lasts > 0 ? lasts : 0), rows_, 0, node});
        parent[i] = -1;
        depth[i] = 0;
        self[i] = -1;
        stack[i] = node;
        continue;
      }
      while (!on.python.empty() &&
             (on.python.back().end < from || (on.python.back().end == from && lasts != 0))) {
        on.python.pop_back();
      }
      stack[i] = on.python.empty() ? 0 : on.python.back().node;
      if (kind[i] == kAlone) {
        parent[i] = -1;
        depth[i] = 0;
        self[i] = lasts;
        continue;
      }
      while (!on.open.empty() && on.open.back().end <= from &&
             (on.open.back().end < from || kind[i] == kSlice)) {
        close(on.open.back(), first, self);
        on.open.pop_back();
      }
      int64_t end = from + (lasts > 0 ? lasts : 0);
      if (kind[i] == kSlice) {
        // A slice that outlasts what it begins in is not inside it.
        size_t at = on.open.size();
        while (at > 0 && on.open[at - 1].end < end) --at;
        if (at < on.open.size()) ++crossing;
        parent[i] = at ? on.open[at - 1].row : -1;
        depth[i] = static_cast<int16_t>(at);
        self[i] = lasts;
        if (lasts < 0) continue;
        if (at) on.open[at - 1].children += lasts;
        if (at < kDeepest) on.open.insert(on.open.begin() + static_cast<long>(at), {end, rows_, 0, 0});
      } else {
        parent[i] = on.open.empty() ? -1 : on.open.back().row;
        depth[i] = static_cast<int16_t>(on.open.size());
        self[i] = lasts < 0 ? -1 : 0;
      }
    }
  }

  // Closes everything; their self times are all late.
  void finish() {
    late_row.clear();
    late_self.clear();
    for (Lane& lane : lanes_) {
      for (Open& open : lane.open) close(open, rows_, nullptr);
      lane.open.clear();
    }
  }

 private:
  static constexpr size_t kDeepest = 10'000;

  struct Lane {
    std::vector<Open> open, python;
  };

  void close(const Open& open, int64_t first, int64_t* self) {
    if (open.children == 0) return;
    if (open.row >= first) {
      self[open.row - first] -= open.children;
    } else {
      late_row.push_back(open.row);
      late_self.push_back(open.children);
    }
  }

  int32_t node_of(int32_t parent, int32_t name) {
    uint64_t key = static_cast<uint64_t>(static_cast<uint32_t>(parent)) << 32 | static_cast<uint32_t>(name);
    auto found = nodes_.find(key);
    if (found != nodes_.end()) return found->second;
    if (node_parent.size() >= max_nodes) {
      ++refused;
      return parent;
    }
    int32_t node = static_cast<int32_t>(node_parent.size());
    node_parent.push_back(parent);
    node_name.push_back(name);
    nodes_.emplace(key, node);
    return node;
  }

  std::vector<Lane> lanes_;
  std::unordered_map<uint64_t, int32_t> nodes_;
  int64_t rows_ = 0;
};

}  // namespace chrome
