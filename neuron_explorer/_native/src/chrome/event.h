// One entry of traceEvents → one record of fixed size.
#pragma once

#include <string>
#include <unordered_map>

#include "intern.h"
#include "lex.h"

namespace chrome {

constexpr int kInts = 10;
constexpr int kTexts = 6;
constexpr int64_t kNone = INT64_MIN;

enum Flag : uint16_t {
  kNoStart = 1,
  kBadStart = 2,
  kNoDuration = 4,
  kBadDuration = 8,
  kTextTime = 16,
  kDeep = 32,
  kLong = 64,
  kNoArguments = 128,  // args are no object
  kEmpty = 256,
};

struct Record {  // trace/importers/chrome_json/records.py has the same layout
  int64_t start, duration, offset;
  int64_t ints[kInts];
  int32_t name, category, pid, tid, id;
  int32_t texts[kTexts];
  int32_t rest;
  uint16_t flags;
  uint8_t phase;
  uint8_t unused[5];
};
static_assert(sizeof(Record) == 160, "the layout that Python reads");

struct Key {
  bool text;
  int slot;
};

class EventParser {
 public:
  std::unordered_map<std::string, Key> keys;  // of args
  Interner texts;

  // The event whose brace is at the cursor. On `bad` the cursor is where the text stops being JSON.
  Got parse(Cursor& c, Record& r) {
    r = Record{};
    r.start = 0;
    r.duration = 0;
    for (int64_t& value : r.ints) value = kNone;
    r.flags = kNoStart | kNoDuration;
    rest_.clear();
    ++c.at;
    if (!c.skip_space()) return Got::more;
    if (*c.at == '}') {
      ++c.at;
      r.flags |= kEmpty;
      return Got::ok;
    }
    while (true) {
      Got got = member(c, r);
      if (got != Got::ok) return got;
      if (!c.skip_space()) return Got::more;
      if (*c.at == '}') break;
      if (*c.at != ',') return Got::bad;
      ++c.at;
      if (!c.skip_space()) return Got::more;
    }
    ++c.at;
    if (!rest_.empty()) r.rest = texts.number(rest_);
    return Got::ok;
  }

 private:
  Got key(Cursor& c, std::string_view& name) {
    if (*c.at != '"') return Got::bad;
    Got got = read_string(c, name);
    if (got != Got::ok) return got;
    if (!c.skip_space()) return Got::more;
    if (*c.at != ':') return Got::bad;
    ++c.at;
    return c.skip_space() ? Got::ok : Got::more;
  }

  Got member(Cursor& c, Record& r) {
    std::string_view name;
    Got got = key(c, name);
    if (got != Got::ok) return got;
    if (name == "args" && *c.at == '{') return arguments(c, r);
    std::string_view token;
    bool is_text = false;
    got = simple(c, token, is_text, r);
    if (got != Got::ok) return got;
    if (name == "name") {
      r.name = content(token, is_text, r);
    } else if (name == "cat") {
      r.category = content(token, is_text, r);
    } else if (name == "pid") {
      r.pid = content(token, is_text, r);
    } else if (name == "tid") {
      r.tid = content(token, is_text, r);
    } else if (name == "id" || name == "id2") {
      r.id = content(token, is_text, r);
    } else if (name == "ph") {
      r.phase = is_text && token.size() == 1 ? static_cast<uint8_t>(token[0]) : 0;
    } else if (name == "ts") {
      time(token, is_text, r, r.start, kNoStart, kBadStart);
    } else if (name == "dur") {
      time(token, is_text, r, r.duration, kNoDuration, kBadDuration);
    } else if (name == "args") {
      if (is_text || token != "null") r.flags |= kNoArguments;
    } else if (name != "s" && name != "bp") {
      keep(name, token, is_text, r);
    }
    return Got::ok;
  }

  // A value as one token: what is nested is without white space in `value_`.
  Got simple(Cursor& c, std::string_view& token, bool& is_text, Record& r) {
    is_text = *c.at == '"';
    if (is_text) return read_string(c, token);
    if (*c.at == '{' || *c.at == '[') {
      value_.clear();
      bool deep;
      Got got = read_value(c, value_, deep, open_);
      if (got != Got::ok) return got;
      if (deep) {
        r.flags |= kDeep;
        value_ = "\"<too deeply nested>\"";
      }
      token = value_;
      return Got::ok;
    }
    Got got = read_scalar(c, token);
    if (got == Got::ok && !scalar_is_value(token)) {
      c.at -= token.size();
      return Got::bad;
    }
    return got;
  }

  void time(std::string_view token, bool is_text, Record& r, int64_t& value, int none, int bad) {
    r.flags = static_cast<uint16_t>(r.flags & ~(none | bad));
    value = 0;
    if (!is_text && token == "null") {
      r.flags = static_cast<uint16_t>(r.flags | none);
    } else if (!nanoseconds(token, value)) {
      value = 0;
      r.flags = static_cast<uint16_t>(r.flags | bad);
    } else if (is_text) {
      r.flags |= kTextTime;
    }
  }

  int32_t content(std::string_view token, bool is_text, Record& r) {
    if (!is_text && token == "null") return 0;
    if (token.size() > kMaxText) {
      r.flags |= kLong;
      token = token.substr(0, kMaxText);
      while (!token.empty() && (token.back() == '\\' || static_cast<unsigned char>(token.back()) >= 0x80)) {
        token.remove_suffix(1);
      }
    }
    return token.empty() ? 0 : texts.number(token);
  }

  void keep(std::string_view name, std::string_view token, bool is_text, Record& r) {
    if (name.size() + token.size() + rest_.size() > kMaxText) {
      r.flags |= kLong;
      return;
    }
    if (!rest_.empty()) rest_.push_back(',');
    rest_.push_back('"');
    rest_.append(name);
    rest_.append("\":");
    if (is_text) {
      rest_.push_back('"');
      rest_.append(token);
      rest_.push_back('"');
    } else if (token.size() && (token[0] == '{' || token[0] == '[' || token[0] == '"')) {
      rest_.append(token);
    } else {
      append_scalar(rest_, token);
    }
  }

  Got arguments(Cursor& c, Record& r) {
    ++c.at;
    if (!c.skip_space()) return Got::more;
    if (*c.at == '}') {
      ++c.at;
      return Got::ok;
    }
    while (true) {
      std::string_view name;
      Got got = key(c, name);
      if (got != Got::ok) return got;
      std::string_view token;
      bool is_text = false;
      got = simple(c, token, is_text, r);
      if (got != Got::ok) return got;
      argument(name, token, is_text, r);
      if (!c.skip_space()) return Got::more;
      if (*c.at == '}') break;
      if (*c.at != ',') return Got::bad;
      ++c.at;
      if (!c.skip_space()) return Got::more;
    }
    ++c.at;
    return Got::ok;
  }

  void argument(std::string_view name, std::string_view token, bool is_text, Record& r) {
    found_.assign(name);
    auto known = keys.find(found_);
    if (known != keys.end()) {
      const Key& key = known->second;
      if (!is_text && token == "null") return;
      if (key.text) {
        int32_t& slot = r.texts[key.slot];
        if (slot == 0 && token.size() <= kMaxText) {
          // What is no string keeps its brackets or digits; a string's content stands alone.
          slot = token.empty() ? 0 : texts.number(token);
          return;
        }
      } else if (!is_text && r.ints[key.slot] == kNone && integer(token, r.ints[key.slot])) {
        return;
      }
    }
    keep(name, token, is_text, r);
  }

  std::string rest_, value_, found_;
  std::vector<char> open_;
};

}  // namespace chrome
