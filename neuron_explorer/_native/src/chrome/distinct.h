// Equal numbers get equal positions, without sorting.
#pragma once

#include <cstdint>
#include <vector>

namespace chrome {

// `where[i]`: position of keys[i] among the distinct keys, in order of first appearance.
// Returns where each of them appears first.
inline std::vector<int64_t> distinct(const int64_t* keys, size_t count, int64_t* where) {
  size_t size = 64;
  while (size < count / 4) size *= 2;  // most keys repeat
  std::vector<int64_t> slots(size, -1), first;
  auto place = [&](int64_t key) {
    uint64_t hash = static_cast<uint64_t>(key) * 0x9E3779B97F4A7C15ull;
    hash ^= hash >> 32;
    size_t at = hash & (slots.size() - 1);
    while (slots[at] >= 0 && keys[first[static_cast<size_t>(slots[at])]] != key) at = (at + 1) & (slots.size() - 1);
    return at;
  };
  for (size_t i = 0; i < count; ++i) {
    if (i && keys[i] == keys[i - 1]) {
      where[i] = where[i - 1];
      continue;
    }
    size_t at = place(keys[i]);
    if (slots[at] < 0) {
      slots[at] = static_cast<int64_t>(first.size());
      first.push_back(static_cast<int64_t>(i));
      where[i] = slots[at];
      if (first.size() * 2 > slots.size()) {
        slots.assign(slots.size() * 2, -1);
        for (size_t n = 0; n < first.size(); ++n) slots[place(keys[first[n]])] = static_cast<int64_t>(n);
      }
    } else {
      where[i] = slots[at];
    }
  }
  return first;
}

}  // namespace chrome
