#include "server/engine/search/scroll_token.h"

#include "base/dcheck.h"
#include "base/files.h"
#include "base/status.h"
#include "server/engine/collection/collection.h"
#include "store/keys.h"

namespace lightcone::server {
namespace {

constexpr char kTokenVersion = 1;
constexpr size_t kHeaderBytes = 5, kChecksumBytes = 4, kBytesMax = 65'536;

void AppendBigEndian(std::string* out, uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) out->push_back(static_cast<char>(value >> shift));
}

uint32_t ReadBigEndian(std::string_view bytes) {
  uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

absl::Status BadToken() {
  return InvalidField("token", "not a scroll token", "the token of an earlier page, or empty");
}

}  // namespace

std::string EncodeScrollToken(const ScrollToken& token) {
  std::string bytes(1, kTokenVersion);
  AppendBigEndian(&bytes, token.collection);
  bytes += token.last_key;
  AppendBigEndian(&bytes, Crc32c(bytes));
  std::string text;
  text.reserve(bytes.size() * 2);
  for (const unsigned char c : bytes) {
    text.push_back("0123456789abcdef"[c >> 4]);
    text.push_back("0123456789abcdef"[c & 15]);
  }
  return text;
}

// A key that lies before `item_key` with no item's key between them. Keys of numbers have one length, and those of
// names are UTF-8, in which no byte is 0xff.
std::string EncodeScrollTokenAt(uint32_t collection, std::string_view item_key) {
  LC_DCHECK(!item_key.empty());
  std::string before(item_key);
  const char last = before.back();
  before.pop_back();
  if (last != '\0') {
    before += static_cast<char>(static_cast<unsigned char>(last) - 1);
    before += '\xff';
  }
  return EncodeScrollToken({collection, std::move(before)});
}

absl::StatusOr<ScrollToken> DecodeScrollToken(std::string_view text) {
  if (text.size() % 2 != 0 || text.size() < 2 * (kHeaderBytes + kChecksumBytes) || text.size() > 2 * kBytesMax) {
    return BadToken();
  }
  std::string bytes;
  bytes.reserve(text.size() / 2);
  for (size_t i = 0; i < text.size(); i += 2) {
    const int high = HexDigit(text[i]), low = HexDigit(text[i + 1]);
    if (high < 0 || low < 0) return BadToken();
    bytes.push_back(static_cast<char>(high << 4 | low));
  }
  const std::string_view body = std::string_view(bytes).substr(0, bytes.size() - kChecksumBytes);
  if (Crc32c(body) != ReadBigEndian(std::string_view(bytes).substr(body.size())) || body[0] != kTokenVersion) {
    return BadToken();
  }
  return ScrollToken{ReadBigEndian(body.substr(1)), std::string(body.substr(kHeaderBytes))};
}

absl::StatusOr<std::string> ScrollBegin(const std::optional<ScrollToken>& token, uint32_t collection) {
  const keys::Range range = keys::ItemRange(collection);
  if (!token) return range.begin;
  if (token->last_key < range.begin || token->last_key >= range.end) {
    return InvalidField("token", "of another collection", "the token of an earlier page of this collection");
  }
  return token->last_key + '\0';  // the smallest key behind it
}

absl::StatusOr<ServedPtr> FindScrolled(const Catalog& catalog, const std::string& name,
                                       const std::optional<ScrollToken>& from) {
  LC_ASSIGN_OR_RETURN(ServedPtr served, catalog.Find(name));
  if (!from || from->collection == served->collection->number()) return served;
  const bool by_alias = served->collection->name() != name;
  absl::StatusOr<ServedPtr> begun = catalog.FindByNumber(from->collection, name);
  if (by_alias || !begun.ok()) return begun;
  return InvalidField("token", "of another collection", "the token of an earlier page of this collection");
}

}  // namespace lightcone::server
