// Bytes of JSON text: white space, strings, numbers, words, and whole values without recursion.
//
// Lenient where traces are: control characters and any escape inside strings, NaN and Infinity,
// numbers with a leading plus, point or zero. Everything here has a twin in
// trace/importers/chrome_json/twin.py that must answer the same for every input.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace chrome {

enum class Got { ok, more, bad };  // `more`: the text ends inside

constexpr int kMaxDepth = 64;
constexpr size_t kMaxText = 256 << 10;  // of one string or value that is kept

inline bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }
inline bool is_digit(char c) { return c >= '0' && c <= '9'; }
inline bool is_number_char(char c) { return is_digit(c) || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E'; }
inline bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

struct Cursor {
  const char* at;
  const char* end;

  bool skip_space() {  // false at the end
    while (at < end && is_space(*at)) ++at;
    return at < end;
  }
};

// The content of a string whose opening quote is at the cursor.
inline Got read_string(Cursor& c, std::string_view& content) {
  const char* from = c.at + 1;
  const char* p = from;
  while (true) {
    const char* quote = static_cast<const char*>(memchr(p, '"', static_cast<size_t>(c.end - p)));
    if (!quote) return Got::more;
    const char* slash = quote;
    while (slash > from && slash[-1] == '\\') --slash;
    if ((quote - slash) % 2 == 0) {
      content = {from, static_cast<size_t>(quote - from)};
      c.at = quote + 1;
      return Got::ok;
    }
    p = quote + 1;
  }
}

enum class Number { none, loose, strict, integer };  // loose: a number that JSON does not allow

inline Number number_kind(std::string_view t) {
  size_t i = 0, n = t.size();
  bool strict = true;
  if (i < n && (t[i] == '-' || t[i] == '+')) strict = t[i++] == '-';
  size_t whole = i;
  while (i < n && is_digit(t[i])) ++i;
  size_t digits = i - whole;
  if (digits == 0 || (digits > 1 && t[whole] == '0')) strict = false;
  bool fraction = false, exponent = false;
  if (i < n && t[i] == '.') {
    fraction = true;
    size_t from = ++i;
    while (i < n && is_digit(t[i])) ++i;
    if (i == from) strict = false;
    digits += i - from;
  }
  if (digits == 0) return Number::none;
  if (i < n && (t[i] == 'e' || t[i] == 'E')) {
    exponent = true;
    ++i;
    if (i < n && (t[i] == '-' || t[i] == '+')) ++i;
    size_t from = i;
    while (i < n && is_digit(t[i])) ++i;
    if (i == from) return Number::none;
  }
  if (i != n) return Number::none;
  if (!strict) return Number::loose;
  return fraction || exponent ? Number::strict : Number::integer;
}

enum class Word { none, plain, null, not_finite };

inline Word word_kind(std::string_view t) {
  if (t == "true" || t == "false") return Word::plain;
  if (t == "null") return Word::null;
  if (!t.empty() && (t[0] == '-' || t[0] == '+')) t.remove_prefix(1);
  if (t == "NaN" || t == "nan" || t == "Infinity" || t == "inf" || t == "Inf") return Word::not_finite;
  return Word::none;
}

// A number or a word at the cursor; `more` when it touches the end.
inline Got read_scalar(Cursor& c, std::string_view& token) {
  const char* p = c.at;
  while (p < c.end && (is_number_char(*p) || is_letter(*p))) ++p;
  if (p == c.end) return Got::more;
  if (p == c.at) return Got::bad;
  token = {c.at, static_cast<size_t>(p - c.at)};
  c.at = p;
  return Got::ok;
}

inline bool scalar_is_value(std::string_view t) {
  return number_kind(t) != Number::none || word_kind(t) != Word::none;
}

// A scalar as JSON allows it.
inline void append_scalar(std::string& out, std::string_view t) {
  Number n = number_kind(t);
  if (n == Number::integer || n == Number::strict || (n == Number::none && word_kind(t) != Word::not_finite)) {
    out.append(t);
  } else {
    out.push_back('"');
    out.append(t);
    out.push_back('"');
  }
}

// Any value at the cursor, checked, without white space, appended to `out` (as far as it fits `limit`).
// `deep`: it is nested deeper than is kept.
inline Got read_value(Cursor& c, std::string& out, bool& deep, std::vector<char>& open) {
  open.clear();
  deep = false;
  std::string_view token;
  while (true) {
    // A value is expected.
    if (!c.skip_space()) return Got::more;
    char b = *c.at;
    bool ended = false;
    if (b == '"') {
      Got got = read_string(c, token);
      if (got != Got::ok) return got;
      out.push_back('"');
      out.append(token);
      out.push_back('"');
      ended = true;
    } else if (b == '{' || b == '[') {
      out.push_back(b);
      ++c.at;
      open.push_back(b);
      if (open.size() > kMaxDepth) deep = true;
      if (!c.skip_space()) return Got::more;
      if (*c.at == (b == '{' ? '}' : ']')) {
        out.push_back(*c.at++);
        open.pop_back();
        ended = true;
      }
    } else {
      Got got = read_scalar(c, token);
      if (got != Got::ok) return got;
      if (!scalar_is_value(token)) {
        c.at -= token.size();
        return Got::bad;
      }
      append_scalar(out, token);
      ended = true;
    }
    while (ended) {  // what follows a value
      if (open.empty()) return Got::ok;
      if (!c.skip_space()) return Got::more;
      if (*c.at == ',') {
        out.push_back(',');
        ++c.at;
        ended = false;
      } else if (*c.at == (open.back() == '{' ? '}' : ']')) {
        out.push_back(*c.at++);
        open.pop_back();
      } else {
        return Got::bad;
      }
    }
    if (open.back() == '{') {  // a key comes first
      if (!c.skip_space()) return Got::more;
      if (*c.at != '"') return Got::bad;
      Got got = read_string(c, token);
      if (got != Got::ok) return got;
      out.push_back('"');
      out.append(token);
      out.append("\":");
      if (!c.skip_space()) return Got::more;
      if (*c.at != ':') return Got::bad;
      ++c.at;
    }
  }
}

// Decimal microseconds → nanoseconds, exactly, half away from zero beyond the nanosecond.
// False where it is no number or no int64. 36 digits count.
inline bool nanoseconds(std::string_view t, int64_t& value) {
  if (number_kind(t) == Number::none) return false;
  size_t i = 0;
  bool negative = false;
  if (t[0] == '-' || t[0] == '+') negative = t[i++] == '-';
  unsigned __int128 mantissa = 0;
  int digits = 0;
  int64_t power = 3;
  bool point = false;
  for (; i < t.size() && t[i] != 'e' && t[i] != 'E'; ++i) {
    if (t[i] == '.') {
      point = true;
      continue;
    }
    if (digits < 36) {
      mantissa = mantissa * 10 + static_cast<unsigned>(t[i] - '0');
      if (mantissa != 0) ++digits;
      if (point) --power;
    } else if (!point) {
      ++power;
    }
  }
  if (i < t.size()) {
    ++i;
    bool minus = false;
    if (t[i] == '-' || t[i] == '+') minus = t[i++] == '-';
    int64_t exponent = 0;
    for (; i < t.size(); ++i) exponent = exponent < 10000 ? exponent * 10 + (t[i] - '0') : exponent;
    power += minus ? -exponent : exponent;
  }
  if (mantissa == 0) {
    value = 0;
    return true;
  }
  constexpr unsigned __int128 kLimit = static_cast<unsigned __int128>(1) << 63;
  for (; power > 0; --power) {
    mantissa *= 10;
    if (mantissa >= kLimit) return false;
  }
  if (power < 0) {
    if (power < -38) {
      value = 0;
      return true;
    }
    unsigned __int128 divisor = 1;
    for (; power < 0; ++power) divisor *= 10;
    unsigned __int128 rest = mantissa % divisor;
    mantissa /= divisor;
    if (rest >= divisor - rest) ++mantissa;
  }
  if (mantissa >= kLimit) return false;
  value = negative ? -static_cast<int64_t>(mantissa) : static_cast<int64_t>(mantissa);
  return true;
}

// An integer without a fraction that fits int64 and is not the value that stands for "none".
inline bool integer(std::string_view t, int64_t& value) {
  if (number_kind(t) != Number::integer || t.size() > 20) return false;
  bool negative = t[0] == '-';
  unsigned __int128 n = 0;
  for (size_t i = negative; i < t.size(); ++i) n = n * 10 + static_cast<unsigned>(t[i] - '0');
  if (n >= static_cast<unsigned __int128>(1) << 63) return false;
  value = negative ? -static_cast<int64_t>(n) : static_cast<int64_t>(n);
  return true;
}

}  // namespace chrome
