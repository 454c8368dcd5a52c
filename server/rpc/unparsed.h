// Why the bytes of a message do not parse, in words for the caller who sent them. Threads: pure function.
#pragma once

#include <string>

#include "google/protobuf/descriptor.h"
#include "google/protobuf/io/zero_copy_stream.h"

namespace lightcone::server {

// "field 'batch.items[0].id.name' is no UTF-8: byte 3 is 0xff", or "its bytes are not in the wire format".
// It walks the `size` bytes of `input`, and copies one text at a time.
std::string WhyUnparsed(const google::protobuf::Descriptor& type, google::protobuf::io::ZeroCopyInputStream* input,
                        int size);

}  // namespace lightcone::server
