// Fixed-width integers of the store. Keys are big endian, so that byte order is numeric order. Values are little
// endian, so that a vector of floats is copied as it lies in memory. Threads: pure functions.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "base/dcheck.h"

namespace lightcone::coding {

static_assert(std::endian::native == std::endian::little, "values are little endian and are copied, not converted");

template <typename T>
void AppendLittle(std::string* out, T value) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out->append(bytes, sizeof(T));
}

template <typename T>
void AppendBig(std::string* out, T value) {
  for (int shift = static_cast<int>(sizeof(T)) * 8 - 8; shift >= 0; shift -= 8) {
    out->push_back(static_cast<char>((value >> shift) & 0xff));
  }
}

// REQUIRES: bytes.size() >= sizeof(T).
template <typename T>
T ReadBig(std::string_view bytes) {
  LC_DCHECK(bytes.size() >= sizeof(T));
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) value = static_cast<T>(value << 8) | static_cast<uint8_t>(bytes[i]);
  return value;
}

// Takes little-endian values off the front of a record. Take returns false and takes nothing when too few bytes are
// left. Threads: one at a time.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}

  template <typename T>
  bool Take(T* out) {
    if (rest_.size() < sizeof(T)) return false;
    std::memcpy(out, rest_.data(), sizeof(T));
    rest_.remove_prefix(sizeof(T));
    return true;
  }
  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
};

}  // namespace lightcone::coding
