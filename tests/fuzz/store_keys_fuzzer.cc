// Parsers of keys take any bytes; what they accept builds the same key again.
#include <cstdlib>

#include "store/coding.h"
#include "store/envelope.h"
#include "store/keys.h"

namespace keys = lightcone::keys;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view key(reinterpret_cast<const char*>(data), size);
  const uint32_t collection = size >= 4 ? lightcone::coding::ReadBig<uint32_t>(key) : 0;
  if (const auto item = keys::ParseItem(key); item.ok() && keys::Item(collection, *item) != key) abort();
  if (const auto id = keys::DecodeItemId(key); id.ok() && keys::EncodeItemId(*id) != key) abort();
  if (const auto id = keys::ParseInternalId(key); id.ok()) {
    if (keys::InternalId(collection, *id) != key && keys::Input(collection, *id) != key) abort();
  }
  if (const auto row = keys::ParseEmbedding(key); row.ok()) {
    if (keys::Embedding(row->collection, row->generation, row->internal_id) != key) abort();
  }
  if (const auto row = keys::ParseOrder(key); row.ok()) {
    if (!key.starts_with(keys::Generation(row->collection, row->generation))) abort();
  }
  if (const auto sequence = keys::ParseChange(key); sequence.ok() && keys::Change(collection, *sequence) != key)
    abort();
  if (lightcone::PrintableKey(key).size() > 200) abort();
  return 0;
}
