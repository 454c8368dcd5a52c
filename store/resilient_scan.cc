#include "store/resilient_scan.h"

#include <algorithm>

#include "base/dcheck.h"

namespace lightcone {
namespace {

constexpr size_t kKeyBytesMax = 1024;  // above the longest key of any table
constexpr size_t kNarrowBytes = 12;    // bytes behind the common prefix to which the end of a gap is found
constexpr int kByteMax = 255;

std::string With(const std::string& prefix, int byte) { return prefix + static_cast<char>(byte); }

}  // namespace

ResilientScan::ResilientScan(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* family) {
  rocksdb::ReadOptions read;
  read.total_order_seek = true;
  read.verify_checksums = false;
  read.fill_cache = false;
  iterator_.reset(db->NewIterator(read, family));
  if (!Reads("")) PassOver();
}

std::string_view ResilientScan::key() const { return {iterator_->key().data(), iterator_->key().size()}; }
std::string_view ResilientScan::value() const { return {iterator_->value().data(), iterator_->value().size()}; }

void ResilientScan::Next() {
  LC_DCHECK(Valid());
  last_.assign(key());
  iterator_->Next();
  if (!iterator_->status().ok()) PassOver();
}

bool ResilientScan::Reads(const std::string& target) {
  // What lies before the gap can be read, too, and is not its end.
  if (!last_.empty() && target <= last_) return false;
  iterator_->Seek(target);
  return iterator_->status().ok();
}

void ResilientScan::PassOver() {
  // Targets at growing distances from the last key: one more in its last byte, then 2, 4 and so on, then in the byte
  // before. The first that can be read is narrowed down.
  std::string target(kKeyBytesMax, static_cast<char>(kByteMax));
  bool found = false;
  for (size_t length = std::max<size_t>(last_.size(), 1); length > 0 && !found; --length) {
    const std::string prefix = last_.substr(0, length - 1);
    const int byte = last_.empty() ? 0 : static_cast<uint8_t>(last_[length - 1]);
    for (int step = 1, below = byte; byte + step <= kByteMax; step *= 2) {
      if (Reads(With(prefix, byte + step))) {
        target = Narrow(prefix, below, byte + step);
        found = true;
        break;
      }
      below = byte + step;
    }
  }
  Reads(target);
  gaps_.emplace_back(last_, Valid() ? std::string(key()) : "");
}

std::string ResilientScan::Narrow(std::string prefix, int low, int high) {
  std::string best = With(prefix, high);
  for (size_t depth = 0; depth < kNarrowBytes; ++depth) {
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      (Reads(With(prefix, middle)) ? high : low) = middle;
    }
    if (high <= kByteMax) best = With(prefix, high);
    prefix = With(prefix, std::max(low, 0));
    low = -1;
    high = kByteMax + 1;
  }
  return best;
}

}  // namespace lightcone
