#include "store/records.h"

#include <cstring>

#include "base/status.h"
#include "store/coding.h"

namespace lightcone {
namespace {

using coding::AppendLittle;
using coding::Reader;

// The first byte of every record. A new layout gets a new number, and the decoder keeps reading the old ones.
constexpr uint8_t kLayout = 1;
constexpr uint8_t kHasInput = 0x01, kExpires = 0x02;
constexpr size_t kEmbeddingHeader = 1 + 4 + 4;
constexpr size_t kEntryBytesMin = 1 + 4 + 8 + 4;

absl::Status Damaged(std::string_view kind, std::string_view what) { return DataLoss(StrCat(kind, " record: ", what)); }

absl::Status TakeLayout(Reader* reader, std::string_view kind) {
  uint8_t layout = 0;
  if (!reader->Take(&layout)) return Damaged(kind, "is empty");
  if (layout != kLayout) return Damaged(kind, StrCat("layout is ", int{layout}, "; known: ", int{kLayout}));
  return absl::OkStatus();
}

// Takes a count and that many 32-bit numbers. The count is held against the bytes that are there before any allocation.
bool TakeNumbers(Reader* reader, std::vector<uint32_t>* out) {
  uint32_t count = 0;
  if (!reader->Take(&count) || count > reader->rest().size() / sizeof(uint32_t)) return false;
  out->resize(count);
  for (uint32_t& number : *out) reader->Take(&number);
  return true;
}

void AppendNumbers(std::string* out, const std::vector<uint32_t>& numbers) {
  AppendLittle(out, static_cast<uint32_t>(numbers.size()));
  for (const uint32_t number : numbers) AppendLittle(out, number);
}

struct EmbeddingHeader {
  uint32_t dimension = 0;
  float uncertainty = 0;
  std::string_view floats;
};

absl::StatusOr<EmbeddingHeader> ReadEmbeddingHeader(std::string_view bytes) {
  Reader reader(bytes);
  LC_RETURN_IF_ERROR(TakeLayout(&reader, "embedding"));
  EmbeddingHeader header;
  if (!reader.Take(&header.dimension) || !reader.Take(&header.uncertainty)) {
    return Damaged("embedding", StrCat("has ", bytes.size(), " bytes; at least ", kEmbeddingHeader, " are needed"));
  }
  header.floats = reader.rest();
  if (header.floats.size() != uint64_t{header.dimension} * sizeof(float)) {
    return Damaged("embedding",
                   StrCat("has ", header.floats.size(), " bytes of vector for dimension ", header.dimension));
  }
  return header;
}

}  // namespace

std::string ToString(const ItemId& id) {
  if (const uint64_t* number = std::get_if<uint64_t>(&id.value)) return StrCat(*number);
  return StrCat("'", std::get<std::string>(id.value), "'");
}

std::string EncodeItem(const ItemRecord& record) {
  std::string out;
  out.reserve(30 + record.generations.size() * 4 + record.payload_json.size());
  AppendLittle(&out, kLayout);
  AppendLittle(&out, record.internal_id);
  AppendLittle(&out, record.sequence);
  const bool expires = record.expires_ms != 0;
  AppendLittle(&out, static_cast<uint8_t>((record.has_input ? kHasInput : 0) | (expires ? kExpires : 0)));
  if (expires) AppendLittle(&out, record.expires_ms);
  AppendNumbers(&out, record.generations);
  out += record.payload_json;
  return out;
}

absl::StatusOr<ItemRecord> DecodeItem(std::string_view bytes) {
  Reader reader(bytes);
  LC_RETURN_IF_ERROR(TakeLayout(&reader, "item"));
  ItemRecord record;
  uint8_t flags = 0;
  if (!reader.Take(&record.internal_id) || !reader.Take(&record.sequence) || !reader.Take(&flags)) {
    return Damaged("item", StrCat("ends after ", bytes.size(), " bytes, inside its head"));
  }
  if ((flags & ~(kHasInput | kExpires)) != 0) {
    return Damaged("item", StrCat("flags are ", int{flags}, "; known: 0 .. 3"));
  }
  record.has_input = (flags & kHasInput) != 0;
  if ((flags & kExpires) != 0 && (!reader.Take(&record.expires_ms) || record.expires_ms <= 0)) {
    return Damaged("item", "its time to expire is not one after 1970");
  }
  if (!TakeNumbers(&reader, &record.generations)) return Damaged("item", "ends inside its list of generations");
  for (size_t i = 1; i < record.generations.size(); ++i) {
    if (record.generations[i - 1] >= record.generations[i]) {
      return Damaged("item", StrCat("generation ", record.generations[i], " stands behind ", record.generations[i - 1],
                                    "; generations ascend"));
    }
  }
  record.payload_json = std::string(reader.rest());
  return record;
}

std::string EncodeEmbedding(const EmbeddingRecord& record) {
  std::string out;
  out.reserve(kEmbeddingHeader + record.z.size() * sizeof(float));
  AppendLittle(&out, kLayout);
  AppendLittle(&out, static_cast<uint32_t>(record.z.size()));
  AppendLittle(&out, record.uncertainty);
  if (!record.z.empty()) out.append(reinterpret_cast<const char*>(record.z.data()), record.z.size() * sizeof(float));
  return out;
}

absl::StatusOr<EmbeddingRecord> DecodeEmbedding(std::string_view bytes) {
  LC_ASSIGN_OR_RETURN(const EmbeddingHeader header, ReadEmbeddingHeader(bytes));
  EmbeddingRecord record;
  record.uncertainty = header.uncertainty;
  record.z.resize(header.dimension);
  if (header.dimension > 0) std::memcpy(record.z.data(), header.floats.data(), header.floats.size());
  return record;
}

absl::StatusOr<float> DecodeEmbeddingInto(std::string_view bytes, float* out, size_t dimension) {
  LC_ASSIGN_OR_RETURN(const EmbeddingHeader header, ReadEmbeddingHeader(bytes));
  if (header.dimension != dimension) {
    return Damaged("embedding", StrCat("has dimension ", header.dimension, "; expected ", dimension));
  }
  if (dimension > 0) std::memcpy(out, header.floats.data(), header.floats.size());
  return header.uncertainty;
}

std::string EncodeChange(const ChangeRecord& record) {
  std::string out;
  out.reserve(5 + record.entries.size() * kEntryBytesMin);
  AppendLittle(&out, kLayout);
  AppendLittle(&out, static_cast<uint32_t>(record.entries.size()));
  for (const ChangeRecord::Entry& entry : record.entries) {
    AppendLittle(&out, static_cast<uint8_t>(entry.kind));
    AppendLittle(&out, entry.generation);
    AppendLittle(&out, entry.internal_id);
    AppendNumbers(&out, entry.supersedes);
  }
  return out;
}

absl::StatusOr<ChangeRecord> DecodeChange(std::string_view bytes) {
  Reader reader(bytes);
  LC_RETURN_IF_ERROR(TakeLayout(&reader, "change"));
  uint32_t count = 0;
  if (!reader.Take(&count) || count > reader.rest().size() / kEntryBytesMin) {
    return Damaged("change", StrCat("names ", count, " entries; its ", bytes.size(), " bytes cannot hold them"));
  }
  ChangeRecord record;
  record.entries.resize(count);
  for (ChangeRecord::Entry& entry : record.entries) {
    uint8_t kind = 0;
    if (!reader.Take(&kind) || !reader.Take(&entry.generation) || !reader.Take(&entry.internal_id) ||
        !TakeNumbers(&reader, &entry.supersedes)) {
      return Damaged("change", StrCat("ends after ", bytes.size(), " bytes, inside an entry"));
    }
    entry.kind = static_cast<ChangeRecord::Kind>(kind);
    if (entry.kind != ChangeRecord::Kind::kAdd && entry.kind != ChangeRecord::Kind::kDelete) {
      return Damaged("change", StrCat("kind is ", int{kind}, "; known: 1 .. 2"));
    }
  }
  if (!reader.rest().empty()) {
    return Damaged("change", StrCat(reader.rest().size(), " bytes stand behind its last entry"));
  }
  return record;
}

}  // namespace lightcone
