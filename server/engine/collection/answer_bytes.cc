#include "server/engine/collection/answer_bytes.h"

#include "base/status.h"

namespace lightcone::server {
namespace {

constexpr int64_t kItemBytes = 80;  // the numbers of an item with their tags and lengths, at most

}  // namespace

int64_t BytesOf(const ItemId& id) {
  const auto* name = std::get_if<std::string>(&id.value);
  return kHitBytes + static_cast<int64_t>(name == nullptr ? 0 : name->size());
}

int64_t BytesOf(const StoredItem& item) {
  const size_t content = item.payload_json.size() + item.vector.size() * sizeof(float);
  return kItemBytes - kHitBytes + BytesOf(item.id) +
         static_cast<int64_t>(content + item.generations.size() * sizeof(uint32_t));
}

absl::Status AnswerBytes::Add(int64_t bytes) {
  bytes_.fetch_add(bytes, std::memory_order_relaxed);
  return status();
}

absl::Status AnswerBytes::status() const {
  const int64_t bytes = bytes_.load(std::memory_order_relaxed);
  if (bytes_max_ == 0 || bytes <= bytes_max_) return absl::OkStatus();
  return FieldError(absl::StatusCode::kResourceExhausted, "limits.answer_bytes_max",
                    StrCat(bytes_max_, ", and the answer would take about ", bytes, " bytes or more"),
                    "fewer queries, hits or items in one call, or none of their vectors and payloads");
}

}  // namespace lightcone::server
