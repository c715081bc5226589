// The crash-proof buffer: append-only files that survive the death of the process.
//
// The layout is described in neuron_explorer/trace/spool.py; the two must agree.
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

namespace nx {

struct Record {
  uint64_t start;
  uint64_t end;
  uint64_t self;
  int64_t seq;
  uint32_t name;
  uint32_t stack;
  uint32_t signature;
  uint32_t module;
  uint32_t parent;
  uint32_t aux;
  uint32_t node;
  uint16_t depth;
  uint8_t flags;
  uint8_t kind;
};
static_assert(sizeof(Record) == 64, "a record is one cache line");

struct FileHeader {
  char magic[4];
  uint16_t version;
  uint16_t record_size;
  uint32_t thread;
  uint32_t reserved;
  int64_t os_thread;
  uint64_t logical_thread;
  char pad[32];
};
static_assert(sizeof(FileHeader) == 64, "the header takes the place of one record");

struct TensorRecord {
  uint32_t event;
  uint16_t argument;
  uint16_t reserved;
  uint64_t storage;
  uint64_t version;
  uint64_t pad;
};
static_assert(sizeof(TensorRecord) == 32, "a divisor of every window");

constexpr uint32_t kNone = 0xFFFFFFFFu;

enum Kind : uint8_t {
  kOp = 1,
  kAutograd = 2,
  kRange = 3,
  kStep = 4,
  kGc = 5,
  kDataWait = 6,
  kSync = 7,
  kLaunch = 8,
  kCounter = 9,
  kWarning = 10,
  kPause = 11,
  kResume = 12,
  kWindow = 13,
};

enum Flag : uint8_t { kOwnStack = 1, kOutOfOrder = 2, kStackCut = 4 };

// One growing file, written through a window that is mapped (or, where mapping is unsafe,
// buffered). Every window is preallocated before it is mapped: a write to a hole on a full
// disk would end the program with SIGBUS.
class GrowingFile {
 public:
  // Returns 0 or an errno.
  int open(const std::string& path, bool map, size_t window) {
    map_ = map;
    window_ = map ? window : 4096;
    fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd_ < 0) return errno;
    return advance();
  }

  // Room for `size` bytes (a divisor of the window), or nullptr when the disk is full.
  void* take(size_t size) {
    if (used_ + size > window_) {
      int error = advance();
      if (error != 0) return nullptr;
    }
    void* at = base_ + used_;
    used_ += size;
    return at;
  }

  // Where `offset` lies in memory, or nullptr when its window is no longer mapped.
  void* at(uint64_t offset) {
    if (offset < offset_ || offset >= offset_ + window_) return nullptr;
    return base_ + (offset - offset_);
  }

  bool write_at(uint64_t offset, const void* data, size_t size) {
    return ::pwrite(fd_, data, size, static_cast<off_t>(offset)) == static_cast<ssize_t>(size);
  }

  uint64_t size() const { return offset_ + used_; }
  int error() const { return error_; }

  // Cuts the file to what was written. The mapping is dropped.
  void close() {
    if (fd_ < 0) return;
    release();
    if (error_ == 0 && ::ftruncate(fd_, static_cast<off_t>(offset_ + used_)) != 0) error_ = errno;
    ::close(fd_);
    fd_ = -1;
  }

  // In a forked child: forgets the parent's file without writing to it.
  void abandon() {
    if (fd_ < 0) return;
    if (base_ != nullptr) {
      if (map_) ::munmap(base_, window_);
      else ::free(base_);
    }
    base_ = nullptr;
    ::close(fd_);
    fd_ = -1;
  }

 private:
  void release() {
    if (base_ == nullptr) return;
    if (map_) {
      ::munmap(base_, window_);
    } else {
      if (!write_at(offset_, base_, used_) && error_ == 0) error_ = errno ? errno : EIO;
      ::free(base_);
    }
    base_ = nullptr;
  }

  int advance() {
    if (error_ != 0) return error_;
    uint64_t next = base_ == nullptr ? 0 : offset_ + window_;
    int error = map_ ? ::posix_fallocate(fd_, static_cast<off_t>(next), static_cast<off_t>(window_)) : 0;
    if (error != 0) {
      error_ = error;
      return error;
    }
    release();
    if (error_ != 0) return error_;
    void* base;
    if (map_) {
      base = ::mmap(nullptr, window_, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, static_cast<off_t>(next));
      if (base == MAP_FAILED) {
        error_ = errno;
        return error_;
      }
#ifdef MADV_POPULATE_WRITE
      ::madvise(base, window_, MADV_POPULATE_WRITE);
#endif
    } else {
      base = ::calloc(1, window_);
      if (base == nullptr) {
        error_ = ENOMEM;
        return error_;
      }
    }
    base_ = static_cast<char*>(base);
    offset_ = next;
    used_ = 0;
    return 0;
  }

  int fd_ = -1;
  bool map_ = true;
  size_t window_ = 0;
  char* base_ = nullptr;
  uint64_t offset_ = 0;
  size_t used_ = 0;
  int error_ = 0;
};

// Bytes of one entry of tables.log.
class Entry {
 public:
  explicit Entry(uint8_t type) { bytes_.assign({static_cast<char>(type), 0, 0, 0, 0, 0, 0, 0}); }
  Entry& u8(uint8_t v) { return raw(&v, 1); }
  Entry& u32(uint32_t v) { return raw(&v, 4); }
  Entry& i32(int32_t v) { return raw(&v, 4); }
  Entry& i64(int64_t v) { return raw(&v, 8); }
  Entry& u64(uint64_t v) { return raw(&v, 8); }
  Entry& text(const char* s, size_t n) {
    u32(static_cast<uint32_t>(n));
    return raw(s, n);
  }
  Entry& text(const std::string& s) { return text(s.data(), s.size()); }
  const std::string& finish() {
    uint32_t length = static_cast<uint32_t>(bytes_.size() - 8);
    memcpy(&bytes_[4], &length, 4);
    return bytes_;
  }

 private:
  Entry& raw(const void* p, size_t n) {
    bytes_.append(static_cast<const char*>(p), n);
    return *this;
  }
  std::string bytes_;
};

enum TableType : uint8_t {
  kTableName = 1,
  kTableSignature = 2,
  kTableCode = 3,
  kTableFrame = 4,
  kTableModule = 5,
  kTableThread = 6,
};

}  // namespace nx
