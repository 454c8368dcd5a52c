// Any lines as a path, a change and a payload: a path has one canonical spelling, as REST's does, and what is selected
// or changed is a payload again.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/json_depth.h"
#include "base/ordered_json.h"
#include "base/utf8.h"
#include "nlohmann/json.hpp"
#include "server/engine/collection/checks.h"
#include "server/engine/collection/payload_patch.h"
#include "server/engine/filter/payload_path.h"
#include "server/engine/filter/payload_selection.h"
#include "server/rest/point_filter.h"

namespace {

using namespace lightcone::server;  // NOLINT: a program of one file
using lightcone::OrderedJson;
using lightcone::ParseOrderedJson;

constexpr int64_t kBytesMax = 1 << 12;

std::string TakeLine(std::string_view* text) {
  const size_t end = std::min(text->find('\n'), text->size());
  const std::string line(text->substr(0, end));
  text->remove_prefix(std::min(end + 1, text->size()));
  return line;
}

void CheckPath(const std::string& path) {
  const auto keys = ParsePayloadPath(path, "path");
  if (keys.ok()) {
    const std::string canonical = PathText(*keys);
    const auto again = ParsePayloadPath(canonical, "again");
    if (!again.ok() || *again != *keys || CanonicalPath(canonical) != canonical) std::abort();
  }
  const auto from_rest = PayloadPathFrom(path, "path");
  if (!from_rest.ok()) return;
  const auto again = PayloadPathFrom(*from_rest, "again");
  if (!again.ok() || *again != *from_rest) std::abort();
}

// As nlohmann's own reader does, which compares every key with all before it.
void CheckOrdered(const std::string& payload) {
  const auto expected = OrderedJson::parse(payload, nullptr, /*allow_exceptions=*/false);
  const auto read = ParseOrderedJson(payload);
  if (read.is_discarded() != expected.is_discarded()) std::abort();
  // By their texts: for nlohmann 1 equals 1.0.
  if (!read.is_discarded() && read.dump() != expected.dump()) std::abort();
}

void CheckChange(const std::string& path, const std::string& change, const std::string& payload) {
  for (const PayloadChange kind : {PayloadChange::kSet, PayloadChange::kDeleteKeys}) {
    ChangePayloadCall call;
    call.change = kind;
    if (kind == PayloadChange::kSet) call.key = path, call.payload_json = change;
    if (kind == PayloadChange::kDeleteKeys) call.keys = {path};
    const auto patch = PayloadPatch::Make(call, kBytesMax);
    if (!patch.ok()) continue;
    const auto changed = patch->Of(lightcone::ItemId{uint64_t{1}}, payload);
    if (!changed.ok()) continue;
    if (!CheckPayload(*changed, kBytesMax, "payload").ok()) std::abort();
    if (!nlohmann::json::accept(*changed)) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::string path = TakeLine(&text), change = TakeLine(&text), payload(text);
  CheckPath(path);
  if (!lightcone::JsonNestsDeeper(payload, 64)) CheckOrdered(payload);
  if (!CheckPayload(payload, kBytesMax, "payload").ok()) return 0;
  if (lightcone::IsUtf8(path)) CheckChange(path, change, payload);  // The wire and REST take no other.
  for (const PayloadSelection& selection : {PayloadSelection{{path}, {}}, PayloadSelection{{}, {path}}}) {
    const auto selector = PayloadSelector::Make(selection, "payload");
    if (!selector.ok()) continue;
    const std::string some = selector->Of(payload);
    if (!nlohmann::json::accept(some)) std::abort();
    if (selector->Of(some) != some) std::abort();
  }
  return 0;
}
