#include "models/checkpoint.h"

#include <cstring>
#include <vector>

#include "base/files.h"
#include "base/status.h"

namespace lightcone {
namespace {

constexpr std::string_view kMagic = "LCCKPT\r\n";  // the line end shows a transfer in text mode
constexpr uint32_t kSectionsMax = 1024;
constexpr int64_t kFileBytesMax = int64_t{16} << 30;

template <typename T>
void Append(std::string& out, T value) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));  // little-endian machines only, as everywhere in Lightcone's files
  out.append(bytes, sizeof(T));
}

// Takes values off the front of a view; after one failure every further read fails.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  template <typename T>
  bool Take(T& value) {
    if (bytes_.size() - position_ < sizeof(T)) return false;
    std::memcpy(&value, bytes_.data() + position_, sizeof(T));
    position_ += sizeof(T);
    return true;
  }
  bool TakeBytes(uint64_t count, std::string_view& out) {
    if (bytes_.size() - position_ < count) return false;
    out = bytes_.substr(position_, count);
    position_ += count;
    return true;
  }
  size_t position() const { return position_; }
  size_t left() const { return bytes_.size() - position_; }

 private:
  std::string_view bytes_;
  size_t position_ = 0;
};

struct SectionHeader {
  std::string name;
  uint64_t size = 0;
  uint32_t crc32c = 0;
};

absl::Status Truncated() { return DataLoss("checkpoint is truncated"); }

absl::StatusOr<std::vector<SectionHeader>> ReadHeader(std::string_view bytes, Reader& reader) {
  std::string_view magic;
  if (!reader.TakeBytes(kMagic.size(), magic) || magic != kMagic) return DataLoss("not a Lightcone checkpoint");
  uint32_t format = 0, count = 0;
  if (!reader.Take(format)) return Truncated();
  if (format > Checkpoint::kFormat) {
    return FieldError(absl::StatusCode::kFailedPrecondition, "checkpoint.format", StrCat(format),
                      StrCat("1 .. ", Checkpoint::kFormat, " (this file needs a newer Lightcone)"));
  }
  if (!reader.Take(count)) return Truncated();
  if (format == 0 || count > kSectionsMax) return DataLoss("checkpoint header is corrupt");
  std::vector<SectionHeader> headers(count);
  for (SectionHeader& header : headers) {
    uint16_t length = 0;
    std::string_view name;
    if (!reader.Take(length) || !reader.TakeBytes(length, name) || !reader.Take(header.size) ||
        !reader.Take(header.crc32c)) {
      return Truncated();
    }
    header.name = std::string(name);
  }
  const std::string_view header_bytes = bytes.substr(0, reader.position());
  uint32_t crc32c = 0;
  if (!reader.Take(crc32c)) return Truncated();
  if (crc32c != Crc32c(header_bytes)) return DataLoss("checkpoint header fails its checksum");
  return headers;
}

}  // namespace

absl::StatusOr<std::string_view> Checkpoint::Section(const std::string& name) const {
  const auto found = sections.find(name);
  if (found == sections.end()) return DataLoss(StrCat("checkpoint has no section '", name, "'"));
  return std::string_view(found->second);
}

std::string EncodeCheckpoint(const Checkpoint& checkpoint) {
  std::string out(kMagic);
  Append(out, Checkpoint::kFormat);
  Append(out, static_cast<uint32_t>(checkpoint.sections.size()));
  for (const auto& [name, bytes] : checkpoint.sections) {
    Append(out, static_cast<uint16_t>(name.size()));
    out += name;
    Append(out, static_cast<uint64_t>(bytes.size()));
    Append(out, Crc32c(bytes));
  }
  Append(out, Crc32c(out));
  for (const auto& [name, bytes] : checkpoint.sections) out += bytes;
  return out;
}

absl::StatusOr<Checkpoint> ParseCheckpoint(std::string_view bytes) {
  Reader reader(bytes);
  LC_ASSIGN_OR_RETURN(const std::vector<SectionHeader> headers, ReadHeader(bytes, reader));
  Checkpoint checkpoint;
  for (const SectionHeader& header : headers) {
    std::string_view content;
    if (!reader.TakeBytes(header.size, content)) return Truncated();
    if (Crc32c(content) != header.crc32c) {
      return DataLoss(StrCat("checkpoint section '", header.name, "' fails its checksum"));
    }
    if (!checkpoint.sections.emplace(header.name, content).second) {
      return DataLoss(StrCat("checkpoint has section '", header.name, "' twice"));
    }
  }
  if (reader.left() != 0) return DataLoss(StrCat("checkpoint has ", reader.left(), " bytes behind its last section"));
  return checkpoint;
}

absl::Status WriteCheckpoint(const std::string& path, const Checkpoint& checkpoint) {
  if (checkpoint.sections.size() > kSectionsMax) {
    return InvalidField("checkpoint.sections", StrCat(checkpoint.sections.size()), StrCat("0 .. ", kSectionsMax));
  }
  for (const auto& [name, bytes] : checkpoint.sections) {
    if (name.empty() || name.size() > 255) {
      return InvalidField("checkpoint.section.name", StrCat(name.size(), " bytes"), "1 .. 255 bytes");
    }
  }
  return WriteFileAtomically(path, EncodeCheckpoint(checkpoint));
}

absl::StatusOr<Checkpoint> ReadCheckpoint(const std::string& path) {
  LC_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path, kFileBytesMax));
  absl::StatusOr<Checkpoint> checkpoint = ParseCheckpoint(bytes);
  if (!checkpoint.ok()) return Annotate(checkpoint.status(), StrCat("checkpoint '", path, "'"));
  return checkpoint;
}

}  // namespace lightcone
