// A checked change of payloads, ready to be made on one payload after another.
// Threads: const methods are safe from any thread.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/ordered_json.h"
#include "server/engine/api/verb_types.h"
#include "server/engine/filter/payload_path.h"
#include "server/engine/filter/payload_selection.h"

namespace lightcone::server {

class PayloadPatch {
 public:
  // INVALID_ARGUMENT names the field of the call: "payload_json", "key" or "keys[i]". What a change does not use must
  // be left out. `payload_bytes_max`: bytes of a payload, before and after the change.
  static absl::StatusOr<PayloadPatch> Make(const ChangePayloadCall& call, int64_t payload_bytes_max);

  // The payload of an item after the change. Keys keep their order, and numbers are written anew. FAILED_PRECONDITION
  // when a value on the way to the key is no object; INVALID_ARGUMENT when the new payload is too long or too deep.
  // Both name the item.
  absl::StatusOr<std::string> Of(const ItemId& id, const std::string& payload_json) const;

  // Bytes by which the change makes a payload longer, of each array's element that the key leads to.
  size_t bytes_added() const { return bytes_added_; }

 private:
  // Sets the keys in the objects that the path leads to, by keys of objects and by every element of arrays.
  // INVALID_ARGUMENT where the new payload would have more than `bytes_left` bytes by these alone.
  absl::Status SetAt(std::span<const std::string> keys, OrderedJson* at, int64_t* bytes_left) const;

  // Of the text of an item's new payload.
  absl::Status CheckChanged(const std::string& text, const ItemId& id) const;

  PayloadChange change_ = PayloadChange::kSet;
  int64_t payload_bytes_max_ = 0;
  std::string text_;         // given object, as it was given
  OrderedJson object_;       // given object of kSet
  size_t object_bytes_ = 0;  // length of its text
  PathKeys keys_;            // path of kSet; none: the payload itself
  std::string path_;         // canonical spelling of `keys_`
  PayloadSelector kept_;
  size_t bytes_added_ = 0;
};

}  // namespace lightcone::server
