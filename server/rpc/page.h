// One page of a list: at most page_size elements and about 3 MiB, so that clients with gRPC's default message limit of
// 4 MiB can read it. Threads: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "google/protobuf/repeated_ptr_field.h"

namespace lightcone::server {

inline constexpr uint32_t kPageElementsDefault = 1'000;
inline constexpr size_t kPageBytesMax = 3 << 20;

// Key of a number in tokens: keys have the order of their numbers.
inline std::string PageKey(uint32_t number) { return absl::StrFormat("%010u", number); }

// Fills `elements` with those of `all` that come after the request's token, and sets `token`, which is the key of the
// page's last element where more follow. `key` gives an element's key, and `all` has the order of the keys; `convert`
// turns an element into a message, and its error ends the page.
template <typename Element, typename Request, typename Message, typename Key, typename Convert>
absl::Status FillPage(const std::vector<Element>& all, const Request& request,
                      google::protobuf::RepeatedPtrField<Message>* elements, std::string* token, Key key,
                      Convert convert) {
  const uint32_t most = request.page_size() == 0 ? kPageElementsDefault : request.page_size();
  size_t bytes = 0;
  const Element* last = nullptr;
  for (const Element& element : all) {
    if (!request.token().empty() && key(element) <= request.token()) continue;
    if (last != nullptr && (static_cast<uint32_t>(elements->size()) == most || bytes >= kPageBytesMax)) {
      *token = key(*last);
      break;
    }
    const absl::Status converted = convert(element, elements->Add());
    if (!converted.ok()) return converted;
    bytes += elements->rbegin()->ByteSizeLong();
    last = &element;
  }
  return absl::OkStatus();
}

}  // namespace lightcone::server
