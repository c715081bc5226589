// The document around the events, read as it arrives: what is damaged is skipped up to the next
// text that looks like an event.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "event.h"

namespace chrome {

enum Fault {
  kBroken,     // an event whose JSON is damaged
  kNoEvent,    // an entry that is no object
  kTooLong,    // an event (or a value of the document) longer than kMaxEvent
  kCut,        // the text ends inside an event
  kAfter,      // text after the document's end
  kDocument,   // the document around the events is damaged
  kGivenUp,    // no event for kGiveUp bytes
  kNoComma,    // events without a comma between them
  kFaults,
};

constexpr size_t kMaxEvent = 16 << 20;
constexpr int64_t kGiveUp = 256 << 20;
constexpr size_t kLookAround = 256;  // white space that an event may be recognised across

struct Faults {
  int64_t count[kFaults] = {};
  int64_t first[kFaults] = {};

  void add(Fault kind, int64_t offset) {
    if (count[kind]++ == 0) first[kind] = offset;
  }
};

class Stream {
 public:
  EventParser events;
  std::vector<Record> records;
  std::vector<std::pair<std::string, std::string>> header;  // key → JSON of its value
  Faults faults;
  bool complete = false;  // the document was closed

  void feed(const char* data, size_t size, bool last) {
    if (state_ == State::dead) return;
    // What is left of the previous piece comes first.
    buffer_.erase(0, position_);
    base_ += static_cast<int64_t>(position_);
    position_ = 0;
    buffer_.append(data, size);
    last_ = last;
    if (last) buffer_.push_back('\n');  // ends a number that is the last byte
    while (state_ != State::dead && step()) {
    }
    if (!last) return;
    if (state_ == State::array && pending_event_) faults.add(kCut, offset(position_));
    if (state_ == State::object && position_ + 1 < buffer_.size()) faults.add(kDocument, offset(position_));
    complete = state_ == State::end;
    state_ = State::dead;
  }

 private:
  enum class State { start, object, array, end, search, dead };

  int64_t offset(size_t position) const { return base_ + static_cast<int64_t>(position); }

  bool step() {  // false: more text is needed
    pending_event_ = false;
    switch (state_) {
      case State::start: return start();
      case State::object: return object();
      case State::array: return array();
      case State::end: return after_end();
      case State::search: return search();
      case State::dead: return false;
    }
    return false;
  }

  Cursor cursor() const { return {buffer_.data() + position_, buffer_.data() + buffer_.size()}; }
  void moved(const Cursor& c) { position_ = static_cast<size_t>(c.at - buffer_.data()); }

  bool start() {
    if (buffer_.size() < 3 && !last_) return false;
    if (position_ == 0 && base_ == 0 && buffer_.compare(0, 3, "\xEF\xBB\xBF") == 0) position_ = 3;
    Cursor c = cursor();
    bool found = c.skip_space();
    moved(c);
    if (!found) return false;
    if (*c.at == '[') {
      ++position_;
      in_object_ = false;
      state_ = State::array;
    } else if (*c.at == '{') {
      ++position_;
      state_ = State::object;
    } else {
      fault(kDocument, position_);
    }
    return true;
  }

  bool object() {
    Cursor c = cursor();
    while (c.skip_space() && *c.at == ',') ++c.at;
    moved(c);
    if (c.at == c.end) return false;
    if (*c.at == '}') {
      ++position_;
      state_ = State::end;
      return true;
    }
    if (*c.at != '"') return fault(kDocument, position_);
    std::string_view key;
    Got got = read_string(c, key);
    if (got == Got::ok && !c.skip_space()) got = Got::more;
    if (got == Got::ok && *c.at != ':') got = Got::bad;
    if (got == Got::ok) {
      ++c.at;
      if (!c.skip_space()) got = Got::more;
    }
    if (got == Got::ok && key == "traceEvents" && *c.at == '[') {
      ++c.at;
      moved(c);
      in_object_ = true;
      state_ = State::array;
      return true;
    }
    if (got == Got::ok) {
      std::string name(key);
      value_.clear();
      bool deep;
      got = read_value(c, value_, deep, open_);
      if (got == Got::ok) {
        if (deep) value_ = "\"<too deeply nested>\"";
        if (header.size() < 1000) header.emplace_back(std::move(name), value_);
        moved(c);
        return true;
      }
    }
    if (got == Got::bad) return fault(kDocument, static_cast<size_t>(c.at - buffer_.data()));
    return wait(kTooLong);
  }

  bool array() {
    Cursor c = cursor();
    bool found = c.skip_space();
    if (found && *c.at == ',') {
      after_event_ = false;
      do {
        ++c.at;
        found = c.skip_space();
      } while (found && *c.at == ',');
    }
    moved(c);
    if (!found) return false;
    if (*c.at == ']') {
      ++position_;
      after_event_ = false;
      state_ = in_object_ ? State::object : State::end;
      return true;
    }
    if (*c.at == '{') {
      if (after_event_) faults.add(kNoComma, offset(position_));
      Record record;
      Got got = events.parse(c, record);
      if (got == Got::ok) {
        record.offset = offset(position_);
        records.push_back(record);
        moved(c);
        after_event_ = true;
        return true;
      }
      after_event_ = false;
      if (got == Got::bad) {
        faults.add(kBroken, offset(position_));
        return search_from(static_cast<size_t>(c.at - buffer_.data()));
      }
      pending_event_ = true;
      return wait(kTooLong);
    }
    size_t from = position_;
    value_.clear();
    bool deep;
    Got got = read_value(c, value_, deep, open_);
    if (got == Got::more) return wait(kTooLong);
    after_event_ = true;
    faults.add(got == Got::ok ? kNoEvent : kBroken, offset(from));
    if (got == Got::bad) return search_from(static_cast<size_t>(c.at - buffer_.data()));
    moved(c);
    return true;
  }

  bool after_end() {
    Cursor c = cursor();
    bool found = c.skip_space();
    moved(c);
    if (!found) return false;
    faults.add(kAfter, offset(position_));
    return search_from(position_);
  }

  bool fault(Fault kind, size_t position) {
    faults.add(kind, offset(position));
    return search_from(position);
  }

  bool search_from(size_t position) {
    position_ = position;
    searched_ = offset(position);
    floor_ = searched_;
    state_ = State::search;
    after_event_ = false;
    in_object_ = true;
    return true;
  }

  // Looks for `{"ph":` and its like after a comma, a bracket or a brace.
  bool search() {
    size_t p = static_cast<size_t>(searched_ - base_);
    while (true) {
      const void* brace = memchr(buffer_.data() + p, '{', buffer_.size() - p);
      size_t at = brace ? static_cast<size_t>(static_cast<const char*>(brace) - buffer_.data()) : buffer_.size();
      if (offset(at) - floor_ > kGiveUp) {
        faults.add(kGivenUp, floor_);
        state_ = State::dead;
        return false;
      }
      if (!last_ && at + kLookAround > buffer_.size()) {
        searched_ = offset(at);
        // What comes before the brace is looked at too.
        position_ = at > kLookAround ? std::max(position_, at - kLookAround) : position_;
        return false;
      }
      if (!brace) {
        position_ = buffer_.size();
        searched_ = offset(position_);
        return false;
      }
      if (begins_event(at)) {
        position_ = at;
        state_ = State::array;
        return true;
      }
      p = at + 1;
    }
  }

  bool begins_event(size_t at) const {
    size_t lowest = static_cast<size_t>(std::max<int64_t>(floor_ - base_, 0));
    lowest = std::max(lowest, at > kLookAround ? at - kLookAround : 0);
    size_t before = at;
    while (before > lowest && is_space(buffer_[before - 1])) --before;
    if (before == lowest) return false;
    char previous = buffer_[before - 1];
    if (previous != ',' && previous != '[' && previous != '}') return false;
    size_t p = at + 1, stop = std::min(buffer_.size(), at + kLookAround);
    while (p < stop && is_space(buffer_[p])) ++p;
    if (p == stop || buffer_[p] != '"') return false;
    size_t from = ++p;
    while (p < stop && buffer_[p] != '"') ++p;
    if (p == stop) return false;
    std::string_view key(buffer_.data() + from, p - from);
    for (++p; p < stop && is_space(buffer_[p]);) ++p;
    if (p == stop || buffer_[p] != ':') return false;
    for (const char* known : {"ph", "name", "cat", "ts", "pid", "tid", "id", "dur", "args", "tts", "bp", "s"}) {
      if (key == known) return true;
    }
    return false;
  }

  // The text ends inside what began at position_.
  bool wait(Fault too_long) {
    if (buffer_.size() - position_ > kMaxEvent) {
      pending_event_ = false;
      faults.add(too_long, offset(position_));
      return search_from(buffer_.size());
    }
    return false;
  }

  State state_ = State::start;
  std::string buffer_, value_;
  std::vector<char> open_;
  size_t position_ = 0;    // of what is not read yet, in the buffer
  int64_t base_ = 0;       // of the buffer in the text
  int64_t searched_ = 0;   // where the search goes on
  int64_t floor_ = 0;      // where it began
  bool in_object_ = false;
  bool after_event_ = false;
  bool pending_event_ = false;
  bool last_ = false;
};

}  // namespace chrome
