// Why the bytes of a message do not parse, in words for the caller who sent them. Threads: pure function.
#pragma once

#include <string>
#include <string_view>

#include "google/protobuf/descriptor.h"

namespace lightcone::server {

// "field 'batch.items[0].id.name' is no UTF-8: byte 3 is 0xff", or "its bytes are not in the wire format".
std::string WhyUnparsed(const google::protobuf::Descriptor& type, std::string_view bytes);

}  // namespace lightcone::server
