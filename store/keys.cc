#include "store/keys.h"

#include <bit>
#include <cmath>

#include "base/dcheck.h"
#include "base/status.h"
#include "store/coding.h"
#include "store/envelope.h"

namespace lightcone::keys {
namespace {

using coding::AppendBig;
using coding::ReadBig;

// The byte behind the collection number in kItems. Numbers sort before strings; internal ids lie behind both.
constexpr char kNumber = 0x01;
constexpr char kString = 0x02;
constexpr char kInternal = '\x80';
constexpr char kExpiry = '\x81';
// The byte behind the collection number in kProbes.
constexpr char kProbeHead = 0x01;
constexpr char kProbeBody = 0x02;
constexpr size_t kStringBytesMax = 512;
// The number in an adapter's key where a generation's key has the generation. No generation has this number.
constexpr uint32_t kAdapters = UINT32_MAX;

// The numbers one after the other, big endian; a char is one byte.
template <typename... Numbers>
std::string Joined(Numbers... numbers) {
  std::string key;
  (AppendBig(&key, numbers), ...);
  return key;
}

// The smallest key behind all keys that start with `prefix`; empty (to the table's end) when there is none.
std::string BehindPrefix(std::string prefix) {
  while (!prefix.empty() && prefix.back() == '\xff') prefix.pop_back();
  if (!prefix.empty()) prefix.back() = static_cast<char>(static_cast<uint8_t>(prefix.back()) + 1);
  return prefix;
}

Range PrefixRange(const std::string& prefix) { return {prefix, BehindPrefix(prefix)}; }

// Maps a float to an integer of the opposite order. The bits of IEEE floats of one sign order like integers. A NaN,
// which no encoder gives, sorts first as the most uncertain; -0 sorts as 0.
uint32_t DescendingBits(float value) {
  if (std::isnan(value)) return 0;
  const uint32_t bits = std::bit_cast<uint32_t>(value + 0.0f);
  const uint32_t ascending = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
  return ~ascending;
}

absl::Status WrongShape(std::string_view kind, std::string_view key) {
  return DataLoss(StrCat("key ", PrintableKey(key), " is no ", kind, " key"));
}

}  // namespace

std::string Meta(std::string_view name) { return StrCat("m/", name); }
std::string CollectionName(std::string_view name) { return StrCat("n/", name); }
std::string Collection(uint32_t collection) { return Joined(collection); }
std::string Generation(uint32_t collection, uint32_t generation) { return Joined(collection, generation); }
std::string Adapter(uint32_t collection, uint32_t from, uint32_t to) { return Joined(collection, kAdapters, from, to); }
std::string Item(uint32_t collection, const ItemId& id) { return Joined(collection) + EncodeItemId(id); }
std::string InternalId(uint32_t collection, uint64_t internal_id) { return Joined(collection, kInternal, internal_id); }
std::string Expiry(uint32_t collection, int64_t expires_ms, uint64_t internal_id) {
  return Joined(collection, kExpiry, static_cast<uint64_t>(expires_ms), internal_id);
}
std::string Embedding(uint32_t collection, uint32_t generation, uint64_t internal_id) {
  return Joined(collection, generation, internal_id);
}
std::string Order(uint32_t collection, uint32_t generation, float uncertainty, uint64_t internal_id) {
  return Joined(collection, generation, DescendingBits(uncertainty), internal_id);
}
std::string Change(uint32_t collection, uint64_t sequence) { return Joined(collection, sequence); }
std::string Input(uint32_t collection, uint64_t internal_id) { return Joined(collection, internal_id); }
std::string ProbeHead(uint32_t collection, std::string_view name) {
  return StrCat(Joined(collection, kProbeHead), name);
}
std::string ProbeBody(uint32_t collection, std::string_view name) {
  return StrCat(Joined(collection, kProbeBody), name);
}
std::string Job(uint64_t number) { return Joined(number); }

Range ItemRange(uint32_t collection) {
  return {Joined(collection, kNumber), Joined(collection, static_cast<char>(kString + 1))};
}

Range InternalIdRange(uint32_t collection) { return PrefixRange(Joined(collection, kInternal)); }
Range ExpiryRange(uint32_t collection) { return PrefixRange(Joined(collection, kExpiry)); }
Range ExpiryRange(uint32_t collection, int64_t after_ms, int64_t until_ms) {
  LC_DCHECK(0 <= after_ms && after_ms < until_ms);
  return {Expiry(collection, after_ms + 1, 0), Expiry(collection, until_ms + 1, 0)};
}
Range CollectionRange(uint32_t collection) { return PrefixRange(Joined(collection)); }
Range GenerationRange(uint32_t collection, uint32_t generation) {
  return PrefixRange(Generation(collection, generation));
}

Range GenerationRecordRange(uint32_t collection) { return {Joined(collection), Generation(collection, kAdapters)}; }
Range ProbeHeadRange(uint32_t collection) { return PrefixRange(Joined(collection, kProbeHead)); }
Range AdapterRange(uint32_t collection) { return PrefixRange(Generation(collection, kAdapters)); }

absl::StatusOr<ItemId> ParseItem(std::string_view key) {
  if (key.size() < 4) return WrongShape("item", key);
  auto id = DecodeItemId(key.substr(4));
  if (!id.ok()) return WrongShape("item", key);
  return id;
}

absl::StatusOr<uint64_t> ParseInternalId(std::string_view key) {
  if (key.size() == 12) return ReadBig<uint64_t>(key.substr(4));
  if (key.size() == 13 && key[4] == kInternal) return ReadBig<uint64_t>(key.substr(5));
  return WrongShape("internal id", key);
}

absl::StatusOr<ExpiryKey> ParseExpiry(std::string_view key) {
  if (key.size() != 21 || key[4] != kExpiry) return WrongShape("expiry", key);
  return ExpiryKey{static_cast<int64_t>(ReadBig<uint64_t>(key.substr(5))), ReadBig<uint64_t>(key.substr(13))};
}

std::string EncodeItemId(const ItemId& id) {
  std::string bytes;
  if (const uint64_t* number = std::get_if<uint64_t>(&id.value)) {
    bytes.push_back(kNumber);
    AppendBig(&bytes, *number);
  } else {
    bytes.push_back(kString);
    bytes += std::get<std::string>(id.value);
  }
  return bytes;
}

absl::StatusOr<ItemId> DecodeItemId(std::string_view bytes) {
  if (bytes.size() == 9 && bytes[0] == kNumber) return ItemId{ReadBig<uint64_t>(bytes.substr(1))};
  if (bytes.size() >= 2 && bytes.size() <= 1 + kStringBytesMax && bytes[0] == kString) {
    return ItemId{std::string(bytes.substr(1))};
  }
  return DataLoss(StrCat("item id ", PrintableKey(bytes), " is neither a number nor a string of 1 .. 512 bytes"));
}

absl::StatusOr<EmbeddingKey> ParseEmbedding(std::string_view key) {
  if (key.size() != 16) return WrongShape("embedding", key);
  return EmbeddingKey{ReadBig<uint32_t>(key), ReadBig<uint32_t>(key.substr(4)), ReadBig<uint64_t>(key.substr(8))};
}

absl::StatusOr<EmbeddingKey> ParseOrder(std::string_view key) {
  if (key.size() != 20) return WrongShape("order", key);
  return EmbeddingKey{ReadBig<uint32_t>(key), ReadBig<uint32_t>(key.substr(4)), ReadBig<uint64_t>(key.substr(12))};
}

absl::StatusOr<float> OrderUncertainty(std::string_view key) {
  if (key.size() != 20) return WrongShape("order", key);
  const uint32_t ascending = ~ReadBig<uint32_t>(key.substr(8));
  return std::bit_cast<float>((ascending & 0x80000000u) != 0 ? ascending & 0x7fffffffu : ~ascending);
}

absl::StatusOr<uint64_t> ParseJob(std::string_view key) {
  if (key.size() != 8) return WrongShape("job", key);
  return ReadBig<uint64_t>(key);
}

absl::StatusOr<uint64_t> ParseChange(std::string_view key) {
  if (key.size() != 12) return WrongShape("change", key);
  return ReadBig<uint64_t>(key.substr(4));
}

}  // namespace lightcone::keys
