#include "index/rows/id_set.h"

#include <roaring/roaring.h>

#include <algorithm>
#include <array>
#include <new>

namespace lightcone {
namespace {

uint32_t Upper(uint64_t id) { return static_cast<uint32_t>(id >> 32); }
uint32_t Lower(uint64_t id) { return static_cast<uint32_t>(id); }

roaring_bitmap_t* Checked(roaring_bitmap_t* bitmap) {
  if (bitmap == nullptr) throw std::bad_alloc();
  return bitmap;
}

roaring_bitmap_t* Bits(void* lower) { return static_cast<roaring_bitmap_t*>(lower); }

}  // namespace

IdSet::IdSet(const IdSet& other) {
  parts_.reserve(other.parts_.size());
  for (const Part& part : other.parts_) parts_.push_back({part.upper, Checked(roaring_bitmap_copy(Bits(part.lower)))});
}

IdSet::~IdSet() {
  for (const Part& part : parts_) roaring_bitmap_free(Bits(part.lower));
}

const IdSet::Part* IdSet::Find(uint32_t upper) const {
  for (const Part& part : parts_) {  // A part holds four billion ids.
    if (part.upper == upper) return &part;
  }
  return nullptr;
}

IdSet::Part& IdSet::Have(uint32_t upper) {
  auto at = parts_.begin();
  while (at != parts_.end() && at->upper < upper) ++at;
  if (at == parts_.end() || at->upper != upper) {
    at = parts_.insert(at, {upper, nullptr});
    at->lower = roaring_bitmap_create();
    if (at->lower == nullptr) {
      parts_.erase(at);
      throw std::bad_alloc();
    }
  }
  return *at;
}

void IdSet::DropEmpty() {
  std::erase_if(parts_, [](const Part& part) {
    if (!roaring_bitmap_is_empty(Bits(part.lower))) return false;
    roaring_bitmap_free(Bits(part.lower));
    return true;
  });
}

bool IdSet::Add(uint64_t id) { return roaring_bitmap_add_checked(Bits(Have(Upper(id)).lower), Lower(id)); }

void IdSet::AddMany(std::span<const uint64_t> ids) {
  std::vector<uint32_t> lower;
  for (size_t begin = 0; begin < ids.size();) {
    const uint32_t upper = Upper(ids[begin]);
    lower.clear();
    for (; begin < ids.size() && Upper(ids[begin]) == upper; ++begin) lower.push_back(Lower(ids[begin]));
    roaring_bitmap_add_many(Bits(Have(upper).lower), lower.size(), lower.data());
  }
}

bool IdSet::Remove(uint64_t id) {
  const Part* const part = Find(Upper(id));
  if (part == nullptr || !roaring_bitmap_remove_checked(Bits(part->lower), Lower(id))) return false;
  DropEmpty();
  return true;
}

bool IdSet::Contains(uint64_t id) const {
  const Part* const part = Find(Upper(id));
  return part != nullptr && roaring_bitmap_contains(Bits(part->lower), Lower(id));
}

uint64_t IdSet::Count() const {
  uint64_t count = 0;
  for (const Part& part : parts_) count += roaring_bitmap_get_cardinality(Bits(part.lower));
  return count;
}

uint64_t IdSet::CountIn(uint64_t first, uint64_t last) const {
  uint64_t count = 0;
  for (const Part& part : parts_) {
    if (part.upper < Upper(first) || part.upper > Upper(last)) continue;
    const uint64_t begin = part.upper == Upper(first) ? Lower(first) : 0;
    const uint64_t end = part.upper == Upper(last) ? uint64_t{Lower(last)} + 1 : uint64_t{1} << 32;
    if (begin < end) count += roaring_bitmap_range_cardinality(Bits(part.lower), begin, end);
  }
  return count;
}

IdSet& IdSet::operator|=(const IdSet& other) {
  if (&other == this) return *this;
  for (const Part& part : other.parts_) roaring_bitmap_or_inplace(Bits(Have(part.upper).lower), Bits(part.lower));
  return *this;
}

IdSet& IdSet::operator&=(const IdSet& other) {
  if (&other == this) return *this;
  for (Part& part : parts_) {
    const Part* const with = other.Find(part.upper);
    if (with != nullptr) {
      roaring_bitmap_and_inplace(Bits(part.lower), Bits(with->lower));
    } else {
      roaring_bitmap_clear(Bits(part.lower));
    }
  }
  DropEmpty();
  return *this;
}

IdSet& IdSet::operator-=(const IdSet& other) {
  if (&other == this) return *this = IdSet();  // Roaring does not allow it.
  for (Part& part : parts_) {
    if (const Part* const with = other.Find(part.upper))
      roaring_bitmap_andnot_inplace(Bits(part.lower), Bits(with->lower));
  }
  DropEmpty();
  return *this;
}

IdSet IdSet::Union(std::span<const IdSet* const> sets) {
  std::vector<uint32_t> uppers;
  for (const IdSet* set : sets) {
    for (const Part& part : set->parts_) uppers.push_back(part.upper);
  }
  std::sort(uppers.begin(), uppers.end());
  uppers.erase(std::unique(uppers.begin(), uppers.end()), uppers.end());
  IdSet all;
  all.parts_.reserve(uppers.size());
  std::vector<const roaring_bitmap_t*> lowers;
  for (const uint32_t upper : uppers) {
    lowers.clear();
    for (const IdSet* set : sets) {
      if (const Part* const part = set->Find(upper)) lowers.push_back(Bits(part->lower));
    }
    all.parts_.push_back({upper, Checked(roaring_bitmap_or_many(lowers.size(), lowers.data()))});
  }
  return all;
}

void IdSet::ForEachIn(uint64_t first, uint64_t last, absl::FunctionRef<bool(std::span<const uint64_t>)> visit) const {
  std::array<uint32_t, 256> lower;
  std::array<uint64_t, 256> ids;
  for (const Part& part : parts_) {
    if (part.upper < Upper(first) || part.upper > Upper(last)) continue;
    roaring_uint32_iterator_t at;
    roaring_init_iterator(Bits(part.lower), &at);
    if (part.upper == Upper(first)) roaring_move_uint32_iterator_equalorlarger(&at, Lower(first));
    while (at.has_value) {
      const uint32_t n = roaring_read_uint32_iterator(&at, lower.data(), static_cast<uint32_t>(lower.size()));
      size_t count = 0;
      while (count < n) {
        const uint64_t id = (uint64_t{part.upper} << 32) | lower[count];
        if (id > last) break;
        ids[count++] = id;
      }
      if (count > 0 && !visit({ids.data(), count})) return;
      if (count < n) return;
    }
  }
}

size_t IdSet::bytes() const {
  size_t bytes = parts_.capacity() * sizeof(Part);
  for (const Part& part : parts_) bytes += 96 + roaring_bitmap_size_in_bytes(Bits(part.lower));
  return bytes;
}

}  // namespace lightcone
