// The values of ids, by id: eight bytes each, in chunks of neighbouring ids. A search reads a snapshot without a lock.
// Later changes of other ids do not alter what the snapshot holds.
// Threads: one thread at a time calls Set, Clear and Values. A snapshot is safe from any thread.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/dcheck.h"

namespace lightcone::server {

// T: int64_t or double.
template <typename T>
class ValueColumn {
 public:
  // Says that an id has no value.
  static constexpr T kNone =
      std::is_floating_point_v<T> ? std::numeric_limits<T>::quiet_NaN() : std::numeric_limits<T>::lowest();
  static bool IsNone(T value) { return std::is_floating_point_v<T> ? value != value : value == kNone; }

 private:
  static constexpr uint64_t kChunkIds = 4'096;
  static constexpr uint64_t kPageChunks = 512;

  struct Chunk {
    Chunk() {
      for (auto& value : values) value.store(kNone, std::memory_order_relaxed);
    }
    // A search reads only values that were set before it began. Neighbouring values may be set meanwhile.
    std::array<std::atomic<T>, kChunkIds> values;
    // Bounds of all values that were ever set in the chunk: they only grow apart.
    std::atomic<T> least{std::numeric_limits<T>::max()}, greatest{std::numeric_limits<T>::lowest()};
    uint64_t count = 0;  // values other than kNone; for Set and Clear alone
  };
  using Page = std::array<std::shared_ptr<Chunk>, kPageChunks>;
  using Pages = std::vector<std::shared_ptr<const Page>>;  // nullptr: no id of the page has a value

  // nullptr: no id of the chunk has a value.
  static Chunk* FindChunk(const Pages& pages, uint64_t chunk) {
    const uint64_t page = chunk / kPageChunks;
    return page >= pages.size() || pages[page] == nullptr ? nullptr : (*pages[page])[chunk % kPageChunks].get();
  }

 public:
  class Snapshot {
   public:
    T At(uint64_t id) const {
      const Chunk* const of_id = FindChunk(*pages_, id / kChunkIds);
      return of_id == nullptr ? kNone : of_id->values[id % kChunkIds].load(std::memory_order_relaxed);
    }
    // false: no value of the ids first .. last lies in least .. greatest.
    bool MayLieBetween(uint64_t first, uint64_t last, T least, T greatest) const {
      const uint64_t end = std::min<uint64_t>(last / kChunkIds + 1, pages_->size() * kPageChunks);
      for (uint64_t chunk = first / kChunkIds; chunk < end; ++chunk) {
        const Chunk* const values = FindChunk(*pages_, chunk);
        if (values != nullptr && values->least.load(std::memory_order_relaxed) <= greatest &&
            values->greatest.load(std::memory_order_relaxed) >= least) {
          return true;
        }
      }
      return false;
    }

   private:
    friend class ValueColumn;
    explicit Snapshot(std::shared_ptr<const Pages> pages) : pages_(std::move(pages)) {}
    std::shared_ptr<const Pages> pages_;
  };

  // REQUIRES: !IsNone(value).
  void Set(uint64_t id, T value) {
    LC_DCHECK(!IsNone(value));
    Chunk* chunk = FindChunk(*pages_, id / kChunkIds);
    if (chunk == nullptr) chunk = Put(id, std::make_shared<Chunk>());
    auto& place = chunk->values[id % kChunkIds];
    if (IsNone(place.load(std::memory_order_relaxed))) {
      ++chunk->count;
      ++count_;
    }
    place.store(value, std::memory_order_relaxed);
    if (value < chunk->least.load(std::memory_order_relaxed)) chunk->least.store(value, std::memory_order_relaxed);
    if (value > chunk->greatest.load(std::memory_order_relaxed))
      chunk->greatest.store(value, std::memory_order_relaxed);
  }

  void Clear(uint64_t id) {
    Chunk* const chunk = FindChunk(*pages_, id / kChunkIds);
    if (chunk == nullptr) return;
    auto& place = chunk->values[id % kChunkIds];
    if (IsNone(place.load(std::memory_order_relaxed))) return;
    place.store(kNone, std::memory_order_relaxed);
    --count_;
    if (--chunk->count == 0) Put(id, nullptr);
  }

  Snapshot Values() const { return Snapshot(pages_); }
  uint64_t count() const { return count_; }
  // Places for values in the memory that is taken.
  uint64_t room() const { return chunks_ * kChunkIds; }
  // Approximate memory, with pages that are gone.
  size_t bytes() const { return chunks_ * sizeof(Chunk) + pages_->size() * (sizeof(Page) + sizeof(void*)); }

 private:
  // Copies the path to the chunk, so that a snapshot keeps its own.
  Chunk* Put(uint64_t id, std::shared_ptr<Chunk> chunk) {
    const uint64_t at = id / kChunkIds, page = at / kPageChunks;
    auto pages = std::make_shared<Pages>(*pages_);
    if (page >= pages->size()) pages->resize(page + 1);
    auto copy = (*pages)[page] == nullptr ? std::make_shared<Page>() : std::make_shared<Page>(*(*pages)[page]);
    chunk == nullptr ? --chunks_ : ++chunks_;
    Chunk* const put = chunk.get();
    (*copy)[at % kPageChunks] = std::move(chunk);
    const bool empty = std::all_of(copy->begin(), copy->end(), [](const auto& of_page) { return of_page == nullptr; });
    (*pages)[page] = empty ? nullptr : std::move(copy);
    pages_ = std::move(pages);
    return put;
  }

  std::shared_ptr<const Pages> pages_ = std::make_shared<Pages>();
  uint64_t count_ = 0, chunks_ = 0;
};

}  // namespace lightcone::server
