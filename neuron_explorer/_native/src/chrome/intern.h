// Texts by number: each distinct text once, in pages that never move.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

namespace chrome {

class Interner {
 public:
  Interner() : slots_(1 << 12) { texts_.emplace_back(); }  // number 0: none

  // 0 where the bound on bytes is reached (counted in `refused`).
  int32_t number(std::string_view text) {
    uint64_t hash = hash_of(text);
    size_t mask = slots_.size() - 1;
    for (size_t i = hash & mask;; i = (i + 1) & mask) {
      Slot& slot = slots_[i];
      if (slot.number == 0) return add(slot, hash, text);
      if (slot.hash == static_cast<uint32_t>(hash >> 32) && texts_[slot.number] == text) return slot.number;
    }
  }

  size_t size() const { return texts_.size(); }
  std::string_view text(size_t number) const { return texts_[number]; }
  int64_t refused = 0;
  int64_t max_bytes = 1 << 30;

 private:
  struct Slot {
    uint32_t hash = 0;
    int32_t number = 0;
  };

  static uint64_t hash_of(std::string_view t) {
    uint64_t h = 0x9E3779B97F4A7C15ull ^ (t.size() * 0xff51afd7ed558ccdull);
    const char* p = t.data();
    size_t n = t.size();
    while (n >= 8) {
      uint64_t w;
      memcpy(&w, p, 8);
      h = mix(h ^ w);
      p += 8;
      n -= 8;
    }
    if (n) {
      uint64_t w = 0;
      memcpy(&w, p, n);
      h = mix(h ^ w);
    }
    return h ^ (h >> 29);
  }

  static uint64_t mix(uint64_t x) {
    unsigned __int128 m = static_cast<unsigned __int128>(x) * 0x9FB21C651E98DF25ull;
    return static_cast<uint64_t>(m) ^ static_cast<uint64_t>(m >> 64);
  }

  int32_t add(Slot& slot, uint64_t hash, std::string_view text) {
    if (bytes_ + static_cast<int64_t>(text.size()) > max_bytes || texts_.size() >= (1u << 30)) {
      ++refused;
      return 0;
    }
    if (text.size() > left_) {
      size_t page = text.size() > (1 << 16) ? text.size() : 1 << 18;
      pages_.emplace_back(new char[page]);
      free_ = pages_.back().get();
      left_ = page;
    }
    memcpy(free_, text.data(), text.size());
    int32_t number = static_cast<int32_t>(texts_.size());
    texts_.emplace_back(free_, text.size());
    free_ += text.size();
    left_ -= text.size();
    bytes_ += static_cast<int64_t>(text.size()) + 32;
    slot = {static_cast<uint32_t>(hash >> 32), number};
    if (texts_.size() * 2 > slots_.size()) grow();
    return number;
  }

  void grow() {
    std::vector<Slot> bigger(slots_.size() * 2);
    size_t mask = bigger.size() - 1;
    for (size_t n = 1; n < texts_.size(); ++n) {
      uint64_t hash = hash_of(texts_[n]);
      size_t i = hash & mask;
      while (bigger[i].number) i = (i + 1) & mask;
      bigger[i] = {static_cast<uint32_t>(hash >> 32), static_cast<int32_t>(n)};
    }
    slots_.swap(bigger);
  }

  std::vector<Slot> slots_;
  std::vector<std::string_view> texts_;
  std::vector<std::unique_ptr<char[]>> pages_;
  char* free_ = nullptr;
  size_t left_ = 0;
  int64_t bytes_ = 0;
};

}  // namespace chrome
