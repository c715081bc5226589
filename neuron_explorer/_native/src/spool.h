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

#include <mutex>
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
  uint64_t offset;  // in elements, plus one; 0: not known
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
  kMemory = 14,  // an instant: `self` the number of the block, `seq` its bytes, negative where it is released
};

enum Flag : uint8_t { kOwnStack = 1, kOutOfOrder = 2, kStackCut = 4 };

// Where the records that are not in the file yet lie, and where in the file they belong.
struct RingHeader {
  char magic[4];
  uint16_t version;
  uint16_t reserved;
  uint64_t base;  // offset in the file of the ring's first byte; kRingEmpty while it is moved
  char pad[48];
};
static_assert(sizeof(RingHeader) == 64, "");
constexpr uint64_t kRingEmpty = ~0ull;

// One growing file. What was written last lies in a ring of fixed size, a second file that is
// mapped: it outlives the process, and its pages are paid for once (mapping the growing file
// itself costs some 100 ns an event in the kernel, measured on ext4). A full ring is appended
// to the file with one write. The ring is preallocated before it is mapped: a write to a hole
// on a full disk would end the program with SIGBUS. Where mapping is unsafe the ring is
// plain memory, and small.
class GrowingFile {
 public:
  // Returns 0 or an errno. `window` is the ring's size in bytes.
  int open(const std::string& path, bool map, size_t window) {
    map_ = map;
    window_ = map ? window : 4096;
    fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd_ < 0) return errno;
    if (!map_) {
      base_ = static_cast<char*>(::calloc(1, window_));
      return base_ == nullptr ? ENOMEM : 0;
    }
    ring_path_ = path + ".ring";
    int ring = ::open(ring_path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (ring < 0) return errno;
    int error = ::posix_fallocate(ring, 0, static_cast<off_t>(sizeof(RingHeader) + window_));
    void* at = MAP_FAILED;
    if (error == 0) {
      at = ::mmap(nullptr, sizeof(RingHeader) + window_, PROT_READ | PROT_WRITE, MAP_SHARED, ring, 0);
      if (at == MAP_FAILED) error = errno;
    }
    ::close(ring);
    if (error != 0) return error;
#ifdef MADV_POPULATE_WRITE
    ::madvise(at, sizeof(RingHeader) + window_, MADV_POPULATE_WRITE);
#endif
    ring_ = static_cast<RingHeader*>(at);
    ring_->version = 1;
    ring_->base = 0;
    memcpy(ring_->magic, "NXRG", 4);
    base_ = reinterpret_cast<char*>(ring_ + 1);
    return 0;
  }

  // Room for `size` bytes (a divisor of the window), or nullptr when the disk is full.
  void* take(size_t size) {
    if (__builtin_expect(used_ + size > window_, 0) && flush() != 0) return nullptr;
    void* at = base_ + used_;
    used_ += size;
    return at;
  }

  // Where `offset` lies in the ring, or nullptr when it is in the file. For the owner's thread.
  void* at(uint64_t offset) {
    if (offset < offset_ || offset >= offset_ + used_) return nullptr;
    return base_ + (offset - offset_);
  }

  // From any thread.
  bool write_at(uint64_t offset, const void* data, size_t size) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (fd_ < 0) return false;
    if (offset >= offset_) {
      memcpy(base_ + (offset - offset_), data, size);
      return true;
    }
    return ::pwrite(fd_, data, size, static_cast<off_t>(offset)) == static_cast<ssize_t>(size);
  }

  int error() const { return error_; }

  // Appends what the ring holds and drops it; it stays where the disk has no room.
  void close() {
    if (fd_ < 0) return;
    if (flush() == 0 && map_) ::unlink(ring_path_.c_str());
    abandon();
  }

  // In a forked child: forgets the parent's file without writing to it.
  void abandon() {
    std::lock_guard<std::mutex> lock(mutex_);
    if (fd_ < 0) return;
    if (map_) ::munmap(ring_, sizeof(RingHeader) + window_);
    else ::free(base_);
    ::close(fd_);
    base_ = nullptr;
    ring_ = nullptr;
    fd_ = -1;
  }

 private:
  int flush() {
    if (error_ != 0) return error_;
    std::lock_guard<std::mutex> lock(mutex_);
    size_t done = 0;
    while (done < used_) {
      ssize_t n = ::pwrite(fd_, base_ + done, used_ - done, static_cast<off_t>(offset_ + done));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) {
        error_ = n < 0 ? errno : ENOSPC;
        return error_;
      }
      done += static_cast<size_t>(n);
    }
    // A reader must see the records in the file or in the ring, never the old ones in a new place.
    if (map_) __atomic_store_n(&ring_->base, kRingEmpty, __ATOMIC_SEQ_CST);
    memset(base_, 0, used_);
    offset_ += used_;
    used_ = 0;
    if (map_) __atomic_store_n(&ring_->base, offset_, __ATOMIC_SEQ_CST);
    return 0;
  }

  std::mutex mutex_;  // taken when the ring moves and by other threads, not on the fast path
  std::string ring_path_;
  int fd_ = -1;
  bool map_ = true;
  size_t window_ = 0;
  RingHeader* ring_ = nullptr;
  char* base_ = nullptr;
  uint64_t offset_ = 0;  // of the ring's first byte in the file
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
