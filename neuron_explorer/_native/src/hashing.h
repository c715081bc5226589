// Hashes and the small tables that the hot path looks things up in.
#pragma once

#include <stdint.h>
#include <string.h>

#include <vector>

namespace nx {

inline uint64_t mix(uint64_t h, uint64_t v) {
  h = (h ^ v) * 0x9E3779B97F4A7C15ull;
  return h ^ (h >> 29);
}

// One step of a polynomial hash: cheaper than `mix`, to be closed with it.
inline uint64_t step(uint64_t h, uint64_t v) { return (h + v) * 0x9E3779B97F4A7C15ull; }

inline uint64_t hash_text(const char* s, size_t n) {
  uint64_t h = n + 0x51ull;
  while (n >= 8) {
    uint64_t v;
    memcpy(&v, s, 8);
    h = mix(h, v);
    s += 8;
    n -= 8;
  }
  uint64_t tail = 0;
  memcpy(&tail, s, n);
  return mix(h, tail);
}

// 64-bit key → 32-bit id, open addressing, owned by one thread. Keys are good hashes of the
// whole content; a collision of two contents under one key is not expected in the lifetime
// of a recording (birthday bound: 2^32 distinct contents).
class IdCache {
 public:
  IdCache() : slots_(1024) {}

  // 0 when absent.
  uint32_t find(uint64_t key) const {
    size_t mask = slots_.size() - 1;
    for (size_t i = key & mask;; i = (i + 1) & mask) {
      const Slot& s = slots_[i];
      if (s.id == 0) return 0;
      if (s.key == key) return s.id;
    }
  }

  void insert(uint64_t key, uint32_t id) {
    if ((count_ + 1) * 2 > slots_.size()) grow();
    put(key, id);
  }

  void clear() {
    slots_.assign(1024, Slot{});
    count_ = 0;
  }

 private:
  struct Slot {
    uint64_t key = 0;
    uint32_t id = 0;
  };

  void put(uint64_t key, uint32_t id) {
    size_t mask = slots_.size() - 1;
    size_t i = key & mask;
    while (slots_[i].id != 0) i = (i + 1) & mask;
    slots_[i].key = key;
    slots_[i].id = id;
    ++count_;
  }

  void grow() {
    std::vector<Slot> old(slots_.size() * 2);
    old.swap(slots_);
    count_ = 0;
    for (const Slot& s : old)
      if (s.id != 0) put(s.key, s.id);
  }

  std::vector<Slot> slots_;
  size_t count_ = 0;
};

}  // namespace nx
