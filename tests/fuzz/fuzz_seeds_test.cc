// The seeds in corpus/ whose valid bytes need code. Run with LIGHTCONE_WRITE_SEEDS set, this program writes them;
// without it, it says which are missing. A new method of the server needs a seed, and the first test says so.
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/files.h"
#include "base/strings.h"
#include "google/protobuf/message.h"
#include "gtest/gtest.h"
#include "index/graph/graph.h"
#include "index/ivf/lists.h"
#include "index/ivf/pq_codes.h"
#include "index/rows/manifest.h"
#include "server/engine/collection/meta.h"
#include "server/engine/collection/raw_input.h"
#include "server/engine/embed/embed_frames.h"
#include "server/engine/jobs/jobs.h"
#include "server/engine/search/scroll_token.h"
#include "server/engine/validation/probe_record.h"
#include "store/keys.h"
#include "store/records.h"
#include "tests/fuzz/method_tags.h"

namespace lightcone::server {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using Seeds = std::map<std::string, std::string>;  // bytes by file name

constexpr size_t kSeedBytesMax = 4 << 10;
constexpr char kManifest[] = R"({"dimension":4,"curvature":1.0,"clip_radius":2.0})";
const std::string kCorpus = LIGHTCONE_SOURCE_DIR "/tests/fuzz/corpus/";

// What a small engine takes (small_engine.h): its collection, its generation, vectors of its dimension.
std::string TextFor(std::string_view field) {
  static const std::map<std::string_view, std::string_view> known = {{"collection", "c"},
                                                                     {"collections", "c"},
                                                                     {"manifest_json", kManifest},
                                                                     {"payload_json", R"({"kind":"k1"})"},
                                                                     {"field", "kind"},
                                                                     {"path", "kind"},
                                                                     {"paths", "kind"},
                                                                     {"label_field", "kind"},
                                                                     {"request_id", "r1"},
                                                                     {"job", "1"},
                                                                     {"id", "1"},
                                                                     {"drop", "other"}};
  const auto at = known.find(field);
  return std::string(at == known.end() ? "new" : at->second);
}

void FillOne(Message* message, const FieldDescriptor& field, int depth);

// Every field, nested so many levels deep; of a oneof its first.
void Fill(Message* message, int depth) {
  for (int i = 0; i < message->GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor& field = *message->GetDescriptor()->field(i);
    const auto* choice = field.real_containing_oneof();
    if (choice != nullptr && choice->field(0) != &field) continue;
    if (depth == 0 && field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) continue;
    FillOne(message, field, depth);
  }
}

void FillOne(Message* message, const FieldDescriptor& field, int depth) {
  const auto* to = message->GetReflection();
  const bool many = field.is_repeated();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_MESSAGE:
      if (field.is_map()) return;
      return Fill(many ? to->AddMessage(message, &field) : to->MutableMessage(message, &field), depth - 1);
    case FieldDescriptor::CPPTYPE_STRING: {
      const bool bytes = field.type() == FieldDescriptor::TYPE_BYTES;
      const std::string text = bytes ? std::string(16, '\0') : TextFor(field.name());
      return many ? to->AddString(message, &field, text) : to->SetString(message, &field, text);
    }
    case FieldDescriptor::CPPTYPE_FLOAT:
      for (int i = 0; many && i < 4; ++i) to->AddFloat(message, &field, 0.25F);
      return many ? void() : to->SetFloat(message, &field, 0.5F);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return many ? to->AddDouble(message, &field, 0.5) : to->SetDouble(message, &field, 0.5);
    case FieldDescriptor::CPPTYPE_BOOL:
      return many ? to->AddBool(message, &field, true) : to->SetBool(message, &field, field.name() != "exact");
    case FieldDescriptor::CPPTYPE_ENUM:
      return many ? to->AddEnumValue(message, &field, 1) : to->SetEnumValue(message, &field, 1);
    case FieldDescriptor::CPPTYPE_INT32:
      return many ? to->AddInt32(message, &field, 1) : to->SetInt32(message, &field, 1);
    case FieldDescriptor::CPPTYPE_INT64:
      return many ? to->AddInt64(message, &field, 1) : to->SetInt64(message, &field, 1);
    case FieldDescriptor::CPPTYPE_UINT32:
      return many ? to->AddUInt32(message, &field, 1) : to->SetUInt32(message, &field, 1);
    case FieldDescriptor::CPPTYPE_UINT64:
      return many ? to->AddUInt64(message, &field, 1) : to->SetUInt64(message, &field, 1);
  }
}

// Only what names something, and what a message is about: the rest has its default.
void Trim(Message* message) {
  static const std::map<std::string_view, bool> kept = {
      {"collection", true},    {"name", true},    {"generation", true}, {"items", true},
      {"ids", true},           {"queries", true}, {"k", true},          {"vector", true},
      {"floats", true},        {"values", true},  {"id", true},         {"number", true},
      {"field", true},         {"batch", true},   {"set", true},        {"from", true},
      {"manifest_json", true}, {"alias", true},   {"snapshot", true},   {"probes", true}};
  const auto* of = message->GetReflection();
  std::vector<const FieldDescriptor*> fields;
  of->ListFields(*message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (!kept.contains(field->name())) {
      of->ClearField(message, field);
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      if (!field->is_repeated()) Trim(of->MutableMessage(message, field));
      for (int i = 0; field->is_repeated() && i < of->FieldSize(*message, field); ++i) {
        Trim(of->MutableRepeatedMessage(message, field, i));
      }
    }
  }
}

void ForEachRequest(const std::function<void(uint16_t tag, const std::string& name, const Message& request)>& see) {
  for (const auto& [tag, method] : MethodsByTag()) {
    const std::string name = StrCat(method->service()->name(), "_", method->name());
    const auto* prototype = google::protobuf::MessageFactory::generated_factory()->GetPrototype(method->input_type());
    const std::unique_ptr<Message> request(prototype->New());
    Fill(request.get(), 5);
    see(tag, name + "_full", *request);
    Trim(request.get());
    see(tag, name, *request);
  }
}

std::string Tagged(uint16_t tag) { return {static_cast<char>(tag >> 8), static_cast<char>(tag & 0xff)}; }

Seeds MethodSeeds(std::string_view between) {
  Seeds seeds;
  ForEachRequest([&](uint16_t tag, const std::string& name, const Message& request) {
    seeds[name] = StrCat(Tagged(tag), between, request.SerializeAsString());
  });
  return seeds;
}

// For fuzzers whose first byte chooses one of these requests.
Seeds ChosenSeeds(const std::vector<std::string>& methods) {
  Seeds seeds;
  ForEachRequest([&](uint16_t, const std::string& name, const Message& request) {
    for (size_t i = 0; i < methods.size(); ++i) {
      if (!name.starts_with(methods[i])) continue;
      seeds[name] = std::string(1, static_cast<char>(i)) + request.SerializeAsString();
    }
  });
  return seeds;
}

Seeds RecordSeeds() {
  const ItemRecord item{.internal_id = 7,
                        .sequence = 9,
                        .generations = {1, 2},
                        .payload_json = R"({"a":1})",
                        .has_input = true,
                        .expires_ms = 1'000};
  const ChangeRecord change{{{ChangeRecord::Kind::kAdd, 2, 7, {1}}, {ChangeRecord::Kind::kDelete, 0, 8, {}}}};
  return {{"item", EncodeItem(item)},
          {"embedding", EncodeEmbedding({{0.25F, -1.0F, 0.5F}, 0.75F})},
          {"change", EncodeChange(change)}};
}

Seeds KeySeeds() {
  return {{"item_number", keys::Item(1, ItemId{uint64_t{7}})},
          {"item_name", keys::Item(1, ItemId{std::string("name")})},
          {"internal_id", keys::InternalId(1, 7)},
          {"expiry", keys::Expiry(1, 1'000, 7)},
          {"embedding", keys::Embedding(1, 2, 7)},
          {"order", keys::Order(1, 2, 0.5F, 7)},
          {"change", keys::Change(1, 9)},
          {"input", keys::Input(1, 7)},
          {"id", keys::EncodeItemId(ItemId{std::string("name")})}};
}

Seeds FrameSeeds() {
  const EmbedSetup setup{.encoder_path = "/encoder.pt", .manifest_json = kManifest, .generation = 1};
  const std::vector<std::string> inputs = {"Xa text", "I\x89PNG", ""};
  const EmbeddedInputs outputs = {std::vector<float>{0.5F, 1.0F}, absl::InvalidArgumentError("no picture"),
                                  std::vector<float>{0.0F, 2.0F}};
  const std::string vectors = EncodeVectors(1, outputs);
  return {{"setup", EncodeSetup(setup)},
          {"ready", EncodeReady(absl::OkStatus())},
          {"not_ready", EncodeReady(absl::DataLossError("damaged"))},
          {"inputs", EncodeInputs(1, inputs)},
          {"vectors", vectors},
          {"framed", Frame(FrameKind::kVectors, vectors)}};
}

Seeds MetaSeeds() {
  CollectionRecord collection;
  collection.name = "c";
  collection.active_generation = 1;
  collection.last_generation = 2;
  collection.aliases = {"a"};
  collection.earlier_active = {2};
  collection.probe_sets = {{"p", 5}};
  collection.payload_fields = {{"kind", PayloadType::kKeyword}};
  GenerationRecord generation;
  generation.generation = 2;
  generation.parent = 1;
  generation.space = {Metric::kLorentz, 4, 1.0, 2.0};
  generation.manifest_json = kManifest;
  ProgressRecord progress;
  progress.sequence = 9;
  progress.items = {{{1}, 3}, {{1, 2}, 4}};
  JobRecord job;
  job.number = 3;
  job.kind = "validate";
  job.collection = "c";
  job.result_json = "{}";
  ProbeSetStatus set;
  set.name = "p";
  Probe probe;
  probe.vectors = {{1, {0.5F, 0.25F, 0.0F, 1.0F}}};
  probe.relevant = {ItemId{uint64_t{7}}};
  ValidationReport report;
  report.passed = true;
  report.pairs.emplace_back();
  AdapterRecord adapter;
  adapter.from = 1;
  adapter.to = 2;
  adapter.file = "a file";
  return {{"collection", Encode(collection)},
          {"generation", Encode(generation)},
          {"progress", Encode(progress)},
          {"adapter", Encode(adapter)},
          {"backfill", Encode(BackfillRecord{.generation = 2, .embed_rate = 5})},
          {"request", Encode(RequestRecord{.method = "CreateCollection", .fingerprint = "f"})},
          {"audit", Encode(AuditRecord{.collection = "c", .generation = 2, .reason = "why", .canary_share = 0.5})},
          {"job", Encode(job)},
          {"probe_head", EncodeProbeHead(set)},
          {"probes", EncodeProbes({probe})},
          {"validation", Encode(report)},
          {"input_text", EncodeInput(RawInput("a text"))},
          {"input_tensor", EncodeInput(TensorInput{{1, 2}, {0.5F, 1.0F}})}};
}

Seeds TokenSeeds() {
  return {{"number", EncodeScrollToken({1, keys::Item(1, ItemId{uint64_t{7}})})},
          {"name", EncodeScrollToken({1, keys::Item(1, ItemId{std::string("name")})})},
          {"empty", EncodeScrollToken({})}};
}

template <typename T>
std::string BytesOf(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}
template <typename T>
std::string BytesOf(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

// Three rows in a ring, the first of them on a second layer.
Seeds GraphSeeds() {
  Graph::Header header;
  header.rows = 3;
  header.base_width = header.upper_width = 2;
  header.layers = 2;
  header.upper_lists = 1;
  const std::string graph = BytesOf(header) + BytesOf(std::vector<int32_t>{1, 2, 0, 2, 0, 1}) +
                            BytesOf(std::vector<uint32_t>{0, 1, 1, 1}) + BytesOf(std::vector<int32_t>{-1, -1});
  const std::vector<uint32_t> entries = {1};
  return {{"ring", graph}, {"entries", WithEntries(graph, entries)}};
}

Seeds ListSeeds() {
  constexpr int kDimension = 3;
  const Space space{Metric::kEuclidean, kDimension};
  const auto stride = static_cast<size_t>(StrideOf(kDimension));
  Partition partition;
  partition.centres.assign(2 * stride, 0.0F);
  partition.centres[stride] = 1.0F;
  for (size_t i = 0; i < 2; ++i) {
    partition.factors.push_back(FactorsOf(space, {partition.centres.data() + i * stride, size_t{kDimension}}));
  }
  partition.list_of = {0, 1, 0, 1};
  std::vector<uint32_t> place;
  return {{"two_lists", EncodeLists(partition, kDimension, &place)}};
}

Seeds PqSeeds() {
  PqCodes::Header header;
  header.rows = 2;
  header.dimension = 6;
  header.parts = 3;
  header.words = 2;
  const std::vector<float> books(3 * 2 * 2, 0.5F), biases(2, 0.0F);
  return {{"two_rows", BytesOf(header) + BytesOf(books) + BytesOf(biases) + std::string("\0\1\0\1\0\1", 6)}};
}

Seeds IndexManifestSeeds() {
  SegmentManifest manifest;
  manifest.id = 3;
  manifest.generation = 1;
  manifest.space = {Metric::kLorentz, 4, 1.0, 2.0};
  manifest.kind = "flat";
  manifest.rows = 2;
  manifest.stride = 16;
  manifest.last_sequence = 9;
  manifest.files = {{std::string(kVectorsFile), 128, 7},
                    {std::string(kFactorsFile), 2 * sizeof(RowFactors), 7},
                    {std::string(kIdsFile), 16, 7},
                    {std::string(kUncertaintyFile), 8, 7}};
  CarriedManifest carried;
  carried.segment = 3;
  IndexCheckpoint checkpoint;
  checkpoint.next_segment_id = 4;
  checkpoint.generations.push_back({.generation = 1, .space = manifest.space, .sequence = 9, .segments = {3}});
  return {{"manifest", EncodeManifest(manifest)},
          {"carried", EncodeCarried(carried)},
          {"checkpoint", EncodeIndexCheckpoint(checkpoint)},
          {"states", EncodeStates({9, {0, 1, 2}})}};
}

std::map<std::string, Seeds> AllSeeds() {
  return {{"wire_methods_fuzzer", MethodSeeds("")},
          {"message_cost_fuzzer", MethodSeeds(std::string(1, '\0'))},
          {"wire_search_fuzzer", ChosenSeeds({"Retrieval_Search", "Retrieval_Upsert", "Collections_Create"})},
          {"wire_admin_fuzzer",
           ChosenSeeds({"Generations_Register", "Generations_Activate", "Retrieval_Get", "Retrieval_Delete",
                        "Generations_PutAdapter", "Generations_DropAdapter", "Collections_IndexPayload"})},
          {"store_records_fuzzer", RecordSeeds()},
          {"store_keys_fuzzer", KeySeeds()},
          {"embed_frames_fuzzer", FrameSeeds()},
          {"engine_meta_fuzzer", MetaSeeds()},
          {"scroll_token_fuzzer", TokenSeeds()},
          {"index_graph_fuzzer", GraphSeeds()},
          {"index_lists_fuzzer", ListSeeds()},
          {"index_pq_fuzzer", PqSeeds()},
          {"index_manifest_fuzzer", IndexManifestSeeds()}};
}

TEST(FuzzSeeds, AreThereAndSmall) {
  const bool write = std::getenv("LIGHTCONE_WRITE_SEEDS") != nullptr;
  for (const auto& [target, seeds] : AllSeeds()) {
    for (const auto& [name, bytes] : seeds) {
      const std::string path = StrCat(kCorpus, target, "/", name);
      if (write) {
        std::filesystem::create_directories(kCorpus + target);
        ASSERT_TRUE(WriteFileAtomically(path, bytes).ok()) << path;
      }
      const auto kept = ReadFile(path);
      ASSERT_TRUE(kept.ok()) << path << " is missing: run this test with LIGHTCONE_WRITE_SEEDS=1";
      EXPECT_LE(kept->size(), kSeedBytesMax) << path;
    }
  }
}

TEST(FuzzSeeds, EveryMethodHasATagOfItsOwnAndASeedThatParses) {
  size_t methods = 0;
  for (const char* name : ServiceNames()) {
    methods += static_cast<size_t>(
        google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(name)->method_count());
  }
  EXPECT_EQ(MethodsByTag().size(), methods) << "two methods have one tag: choose another checksum";
  ForEachRequest([&](uint16_t tag, const std::string& name, const Message& request) {
    const auto kept = ReadFile(kCorpus + "wire_methods_fuzzer/" + name);
    ASSERT_TRUE(kept.ok()) << name;
    EXPECT_EQ(kept->substr(0, kMethodTagBytes), Tagged(tag)) << name;
    const std::unique_ptr<Message> again(request.New());
    EXPECT_TRUE(again->ParseFromString(kept->substr(kMethodTagBytes))) << name;
    EXPECT_GT(again->ByteSizeLong() + (request.ByteSizeLong() == 0 ? 1 : 0), 0U) << name;
  });
}

TEST(FuzzSeeds, AreTakenByTheDecodersThatTheyAreFor) {
  const auto of = [](const char* target, const char* name) {
    return ReadFile(StrCat(kCorpus, target, "/", name)).value_or("");
  };
  EXPECT_TRUE(DecodeItem(of("store_records_fuzzer", "item")).ok());
  EXPECT_TRUE(DecodeCollection(of("engine_meta_fuzzer", "collection")).ok());
  EXPECT_TRUE(DecodeGeneration(of("engine_meta_fuzzer", "generation")).ok());
  EXPECT_TRUE(DecodeScrollToken(of("scroll_token_fuzzer", "number")).ok());
  EXPECT_TRUE(DecodeVectors(of("embed_frames_fuzzer", "vectors"), 1, 3, 2).ok());
  const auto manifest = DecodeManifest(of("index_manifest_fuzzer", "manifest"));
  EXPECT_TRUE(manifest.ok()) << manifest.status();
  for (const char* name : {"ring", "entries"}) {
    const std::string bytes = of("index_graph_fuzzer", name);
    const auto graph = Graph::Parse(bytes, 3);
    ASSERT_TRUE(graph.ok()) << graph.status();
    EXPECT_TRUE(graph->Check().ok()) << graph->Check();
  }
  const std::string lists = of("index_lists_fuzzer", "two_lists"), codes = of("index_pq_fuzzer", "two_rows");
  EXPECT_TRUE(Lists::Parse(lists, 3, 4).ok()) << Lists::Parse(lists, 3, 4).status();
  EXPECT_TRUE(PqCodes::Parse(codes, 6, 2).ok()) << PqCodes::Parse(codes, 6, 2).status();
}

}  // namespace
}  // namespace lightcone::server
