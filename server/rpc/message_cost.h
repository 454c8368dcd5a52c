// Memory that the bytes of a message take once they are parsed, found by a walk over their tags, without a copy.
// Threads: a MessageShape may be used from any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "google/protobuf/descriptor.h"
#include "google/protobuf/io/zero_copy_stream.h"

namespace lightcone::server {

// Levels of nested messages below the outermost one that protobuf parses.
inline constexpr int kMessageDepthMax = 100;

struct MessageCost {
  int64_t bytes = 0;        // upper estimate of the parsed message's memory, contents of texts included
  std::string field;        // field that takes most of it, such as "UpsertRequest.items"
  int64_t elements = 0;     // number of that field's elements in the whole message
  int64_t field_bytes = 0;  // memory of these elements
};

// Object sizes of a message type and of every type that it can hold.
class MessageShape {
 public:
  // `arena`: messages are parsed into an arena, which spares each of them its own allocation.
  MessageShape(const google::protobuf::Descriptor& type, bool arena);

  // Absent where the `size` bytes of `input` are not in the wire format, or nested deeper than kMessageDepthMax.
  std::optional<MessageCost> CostOf(google::protobuf::io::ZeroCopyInputStream* input, int size) const;

 private:
  friend class MessageWalk;
  enum class Kind : uint8_t { kNone, kScalar, kText, kMessage };
  struct Field {
    Kind kind = Kind::kNone;  // kNone: no field of the type has this number
    bool repeated = false;
    uint8_t wire_type = 0;  // wire type of one element
    uint32_t unit = 0;      // bytes of an element
    int type = 0;           // place of a kMessage's type in types_
    int tally = 0;          // place in tallies
  };
  struct Type {
    std::vector<Field> fields;  // by number
  };

  int Add(const google::protobuf::Descriptor& type);
  uint32_t SizeOf(const google::protobuf::Descriptor& type) const;

  const bool arena_;
  uint32_t root_bytes_ = 0;
  std::vector<const google::protobuf::Descriptor*> known_;  // types, in the order of types_
  std::vector<Type> types_;                                 // the first is the root, the second has no field
  std::vector<std::string> names_;                          // names of fields, by tally
};

}  // namespace lightcone::server
