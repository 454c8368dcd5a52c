// The wire never changes under a client: field numbers and types are held against the list of the last release.
// After adding fields, write the list again with
//   LIGHTCONE_WRITE_WIRE=1 build/bin/wire_numbers_test
// and read the difference: lines may be added, never changed or removed.
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"
#include "gtest/gtest.h"
#include "lightcone/v1/backfill.pb.h"
#include "lightcone/v1/collections.pb.h"
#include "lightcone/v1/generations.pb.h"
#include "lightcone/v1/jobs.pb.h"
#include "lightcone/v1/probes.pb.h"
#include "lightcone/v1/retrieval.pb.h"
#include "lightcone/v1/snapshots.pb.h"
#include "lightcone/v1/training.pb.h"
#include "lightcone/v1/types.pb.h"
#include "lightcone/v1/validation.pb.h"

namespace lightcone {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptor;

constexpr char kList[] = LIGHTCONE_SOURCE_DIR "/tests/rpc/wire_v1.txt";

std::string TypeOf(const FieldDescriptor& field) {
  std::string type = field.type_name();
  if (field.message_type() != nullptr) type = field.message_type()->full_name();
  if (field.enum_type() != nullptr) type = field.enum_type()->full_name();
  return (field.is_repeated() ? "repeated " : field.has_optional_keyword() ? "optional " : "") + type;
}

void ListEnum(const EnumDescriptor& type, std::vector<std::string>* out) {
  for (int i = 0; i < type.value_count(); ++i) {
    out->push_back(type.full_name() + "." + type.value(i)->name() + "=" + std::to_string(type.value(i)->number()));
  }
}

void ListMessage(const Descriptor& type, std::vector<std::string>* out) {
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    out->push_back(type.full_name() + "." + field.name() + "=" + std::to_string(field.number()) + " " + TypeOf(field));
  }
  for (int i = 0; i < type.nested_type_count(); ++i) ListMessage(*type.nested_type(i), out);
  for (int i = 0; i < type.enum_type_count(); ++i) ListEnum(*type.enum_type(i), out);
}

std::vector<std::string> WireNow() {
  std::vector<std::string> out;
  for (const FileDescriptor* file : {v1::ItemId::descriptor()->file(), v1::UpsertRequest::descriptor()->file(),
                                     v1::CollectionInfo::descriptor()->file(), v1::GenerationInfo::descriptor()->file(),
                                     v1::LeaseRequest::descriptor()->file(), v1::TrainingJob::descriptor()->file(),
                                     v1::Probe::descriptor()->file(), v1::JobInfo::descriptor()->file(),
                                     v1::Validation::descriptor()->file(), v1::SnapshotInfo::descriptor()->file()}) {
    for (int i = 0; i < file->message_type_count(); ++i) ListMessage(*file->message_type(i), &out);
    for (int i = 0; i < file->enum_type_count(); ++i) ListEnum(*file->enum_type(i), &out);
    for (int i = 0; i < file->service_count(); ++i) {
      for (int j = 0; j < file->service(i)->method_count(); ++j) {
        const auto& method = *file->service(i)->method(j);
        out.push_back(method.full_name() + "(" + (method.client_streaming() ? "stream " : "") +
                      method.input_type()->full_name() + ") " + (method.server_streaming() ? "stream " : "") +
                      method.output_type()->full_name());
      }
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

TEST(WireNumbers, AreThoseOfTheLastRelease) {
  const std::vector<std::string> now = WireNow();
  if (std::getenv("LIGHTCONE_WRITE_WIRE") != nullptr) {
    std::ofstream list(kList);
    for (const std::string& line : now) list << line << "\n";
  }
  std::ifstream list(kList);
  ASSERT_TRUE(list.good()) << kList;
  std::vector<std::string> released;
  for (std::string line; std::getline(list, line);) released.push_back(line);
  std::vector<std::string> gone, fresh;
  std::set_difference(released.begin(), released.end(), now.begin(), now.end(), std::back_inserter(gone));
  std::set_difference(now.begin(), now.end(), released.begin(), released.end(), std::back_inserter(fresh));
  EXPECT_THAT(gone, testing::IsEmpty()) << "these break clients of the last release";
  EXPECT_THAT(fresh, testing::IsEmpty()) << "add these to " << kList << " (see the top of this file)";
}

TEST(WireNumbers, EveryEnumStartsWithUnspecified) {
  for (const std::string& line : WireNow()) {
    if (line.ends_with("=0")) {
      EXPECT_TRUE(line.ends_with("_UNSPECIFIED=0")) << line;
    }
  }
}

}  // namespace
}  // namespace lightcone
