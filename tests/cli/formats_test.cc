// Files of vectors: what is written reads back, and what is broken is refused with its row.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "base/files.h"
#include "base/npy.h"
#include "base/status.h"
#include "cli/formats/ids.h"
#include "cli/formats/import_state.h"
#include "cli/formats/probe_lines.h"
#include "cli/formats/readers.h"
#include "cli/formats/rows.h"
#include "tests/support/temporary_folder.h"

namespace lightcone::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class Files : public testing::Test {
 protected:
  std::string Put(const std::string& name, const std::string& content) {
    EXPECT_TRUE(WriteFileAtomically(folder_ / name, content).ok());
    return folder_ / name;
  }
  // All rows, or the first error.
  static absl::StatusOr<std::vector<Row>> ReadAll(const std::string& path, const ReadOptions& options = {}) {
    LC_ASSIGN_OR_RETURN(const RowFormat format, RowFormatOf("auto", path));
    LC_ASSIGN_OR_RETURN(const auto reader, OpenRows(path, format, options));
    std::vector<Row> rows;
    Row row;
    for (;;) {
      LC_ASSIGN_OR_RETURN(const bool more, reader->Next(&row));
      if (!more) return rows;
      rows.push_back(row);
    }
  }
  static absl::StatusOr<std::vector<Row>> ReadIds(const std::string& path) {
    LC_ASSIGN_OR_RETURN(const auto reader, OpenIds(path));
    std::vector<Row> rows;
    for (;;) {
      Row row;
      LC_ASSIGN_OR_RETURN(const bool more, reader->Next(&row));
      if (!more) return rows;
      rows.push_back(row);
    }
  }
  static absl::Status Write(const std::string& path, const std::vector<Row>& rows) {
    LC_ASSIGN_OR_RETURN(const RowFormat format, RowFormatOf("auto", path));
    LC_ASSIGN_OR_RETURN(const auto writer, CreateRows(path, format));
    for (const Row& row : rows) LC_RETURN_IF_ERROR(writer->Write(row));
    return writer->Finish();
  }
  static std::string ErrorOf(const absl::StatusOr<std::vector<Row>>& rows, absl::StatusCode code) {
    EXPECT_EQ(rows.status().code(), code) << rows.status();
    return MessageOf(rows.status());
  }

  TemporaryFolder folder_;
};

Row RowOf(std::vector<float> vector, const std::string& id, const std::string& payload) {
  Row row;
  row.vector = std::move(vector);
  row.id = ParseItemId(id).value();
  row.payload_json = payload;
  return row;
}

std::string Fvecs(const std::vector<std::vector<float>>& rows) {
  std::string bytes;
  for (const std::vector<float>& row : rows) {
    const int32_t dimension = static_cast<int32_t>(row.size());
    bytes.append(reinterpret_cast<const char*>(&dimension), 4);
    bytes.append(reinterpret_cast<const char*>(row.data()), row.size() * 4);
  }
  return bytes;
}

TEST_F(Files, EveryFormatReadsBackWhatItWrote) {
  const std::vector<Row> rows = {RowOf({1, 2, 255}, "a", R"({"n":1})"), RowOf({0, 7, 3}, "42", "{}"),
                                 RowOf({9, 8, 7}, "\"42\"", R"({"t":"\u00e9"})")};
  for (const std::string extension : {"npy", "fvecs", "bvecs", "jsonl"}) {
    const std::string path = folder_ / ("rows." + extension);
    ASSERT_TRUE(Write(path, rows).ok()) << extension;
    const auto back = ReadAll(path);
    ASSERT_TRUE(back.ok()) << back.status();
    ASSERT_EQ(back->size(), 3u);
    const auto named = extension == "jsonl" ? back : ReadIds(IdsPath(path));
    ASSERT_TRUE(named.ok()) << named.status();
    for (size_t i = 0; i < rows.size(); ++i) {
      EXPECT_EQ((*back)[i].vector, rows[i].vector) << extension;
      EXPECT_EQ(ItemIdText(*(*named)[i].id), ItemIdText(*rows[i].id)) << extension;
      EXPECT_EQ(nlohmann::json::parse(*(*named)[i].payload_json), nlohmann::json::parse(*rows[i].payload_json));
    }
  }
}

TEST_F(Files, GenerationsReadBackAndAPayloadWithLineBreaksStaysOneLine) {
  const std::string payload = "{\n  \"text\": \"two\\nlines\",\r\n  \"n\": [1,\n2]\n}";
  std::vector<Row> rows = {RowOf({1, 2}, "a", payload), RowOf({3, 4}, "b", "{}"), RowOf({5, 6}, "c", "{}")};
  rows[0].generation = 2;
  rows[1].generation = std::numeric_limits<uint32_t>::max();
  for (const std::string extension : {"npy", "jsonl"}) {
    const std::string path = folder_ / ("lines." + extension);
    ASSERT_TRUE(Write(path, rows).ok()) << extension;
    const auto back = extension == "jsonl" ? ReadAll(path) : ReadIds(IdsPath(path));
    ASSERT_TRUE(back.ok()) << back.status();
    ASSERT_EQ(back->size(), 3u) << extension;
    for (size_t i = 0; i < rows.size(); ++i) {
      EXPECT_EQ(ItemIdText(*(*back)[i].id), ItemIdText(*rows[i].id));
      EXPECT_EQ((*back)[i].generation, rows[i].generation) << extension << ", row " << i;
      EXPECT_EQ(nlohmann::json::parse(*(*back)[i].payload_json), nlohmann::json::parse(*rows[i].payload_json));
    }
  }
}

TEST_F(Files, FloatsSurviveJsonExactly) {
  const std::vector<Row> rows = {RowOf({0.1f, 1e-38f, -3.4028235e38f, 1.0f / 3}, "a", "{}")};
  ASSERT_TRUE(Write(folder_ / "x.jsonl", rows).ok());
  EXPECT_EQ((*ReadAll(folder_ / "x.jsonl"))[0].vector, rows[0].vector);
}

TEST_F(Files, AnEmptyExportIsAValidFile) {
  for (const std::string name : {"e.npy", "e.fvecs", "e.jsonl"}) {
    ASSERT_TRUE(Write(folder_ / name, {}).ok());
    const auto rows = ReadAll(folder_ / name);
    ASSERT_TRUE(rows.ok()) << rows.status();
    EXPECT_TRUE(rows->empty());
  }
}

TEST_F(Files, NothingStandsUnderTheNameBeforeTheWriterFinishes) {
  {
    const auto writer = CreateRows(folder_ / "x.npy", RowFormat::kNpy);
    ASSERT_TRUE(writer.ok());
    ASSERT_TRUE((*writer)->Write(RowOf({1}, "a", "{}")).ok());
    EXPECT_FALSE(std::filesystem::exists(folder_ / "x.npy"));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "")) << "a dropped writer leaves nothing behind";
}

TEST_F(Files, NpyOfManyTypesAndMoreThanABlock) {
  const int64_t rows = 70'000;
  std::string data(static_cast<size_t>(rows) * 20 * 4, '\0');
  for (int64_t i = 0; i < rows; ++i) {
    const float value = static_cast<float>(i);
    std::memcpy(data.data() + i * 80, &value, 4);
  }
  const auto back = ReadAll(Put("big.npy", EncodeNpy(NpyType::kFloat32, {rows, 20}, data)));
  ASSERT_TRUE(back.ok()) << back.status();
  ASSERT_EQ(back->size(), static_cast<size_t>(rows));
  EXPECT_EQ((*back)[69'999].vector[0], 69'999.f);
  EXPECT_EQ((*ReadAll(Put("u8.npy", EncodeNpy(NpyType::kUint8, {1, 2}, "\x05\xff"))))[0].vector,
            (std::vector<float>{5, 255}));
}

TEST_F(Files, RefuseTruncatedAndForeignFiles) {
  const std::string npy = EncodeNpy(NpyType::kFloat32, {2, 2}, std::string(16, '\0'));
  EXPECT_THAT(ErrorOf(ReadAll(Put("t.npy", npy.substr(0, npy.size() - 1))), absl::StatusCode::kDataLoss),
              HasSubstr("truncated or corrupt"));
  ErrorOf(ReadAll(Put("h.npy", npy.substr(0, 20))), absl::StatusCode::kDataLoss);
  EXPECT_THAT(ErrorOf(ReadAll(Put("one.npy", EncodeNpy(NpyType::kFloat32, {4}, std::string(16, '\0')))),
                      absl::StatusCode::kInvalidArgument),
              HasSubstr("allowed: floats or integers of shape (rows, dimension)"));
  const std::string fvecs = Fvecs({{1, 2}, {3, 4}});
  EXPECT_THAT(ErrorOf(ReadAll(Put("t.fvecs", fvecs.substr(0, 20))), absl::StatusCode::kDataLoss),
              HasSubstr("no whole number of rows of 12 bytes"));
  EXPECT_THAT(ErrorOf(ReadAll(Put("m.fvecs", Fvecs({{1, 2}, {3, 4, 5, 6, 7}}))), absl::StatusCode::kDataLoss),
              HasSubstr("row 1: its dimension is 5, that of the rows before it 2"));
  EXPECT_THAT(ErrorOf(ReadAll(Put("n.fvecs", std::string("\xff\xff\xff\xff", 4))), absl::StatusCode::kDataLoss),
              HasSubstr("dimension -1; allowed: 1 .. 65536"));
  EXPECT_THAT(ErrorOf(ReadAll(Put("s.fvecs", "ab")), absl::StatusCode::kDataLoss), HasSubstr("truncated"));
  EXPECT_EQ(ReadAll(folder_ / "none.npy").status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(ErrorOf(ReadAll(Put("x.csv", "1,2")), absl::StatusCode::kInvalidArgument), HasSubstr("--format"));
  std::filesystem::create_directory(folder_ / "d.npy");
  EXPECT_THAT(ErrorOf(ReadAll(folder_ / "d.npy"), absl::StatusCode::kInvalidArgument), HasSubstr("no regular file"));
}

TEST_F(Files, NameTheRowOfAValueThatNoCollectionTakes) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(ErrorOf(ReadAll(Put("n.fvecs", Fvecs({{1, 2}, {3, nan}}))), absl::StatusCode::kInvalidArgument),
              HasSubstr("row 1: field 'vector[1]' is NaN"));
  EXPECT_THAT(ErrorOf(ReadAll(Put("n.npy", EncodeNpy(NpyType::kFloat32, {1, 1}, std::string("\0\0\x80\x7f", 4)))),
                      absl::StatusCode::kInvalidArgument),
              HasSubstr("row 0: field 'vector[0]' is infinite"));
}

TEST_F(Files, JsonlNamesTheLineAndTheField) {
  const auto error = [&](const std::string& line) {
    return ErrorOf(ReadAll(Put("x.jsonl", "{\"vector\":[1]}\n\n" + line + "\n")), absl::StatusCode::kInvalidArgument);
  };
  EXPECT_THAT(error("{"), HasSubstr("line 3: not a JSON value: column 2: unexpected end of input"));
  EXPECT_THAT(error("{\"vector\":[1,NaN]}"), HasSubstr("line 3: not a JSON value: column 14: NaN is no JSON number"));
  EXPECT_THAT(error("{\"vector\":[-Infinity]}"), HasSubstr("column 13: Infinity is no JSON number"));
  EXPECT_THAT(error("{\"vector\":[1,2, ]}"), HasSubstr("column 15: a comma before ']'"));
  EXPECT_THAT(error("{\"id\":\"\xc3\xa9\",}"), HasSubstr("column 10: a comma before '}'"));
  EXPECT_THAT(error("{\"vector\":[1]} {\"vector\":[2]}"), HasSubstr("column 16: more behind the value"));
  EXPECT_THAT(error("{\"id\":\"caf\xe9\"}"), HasSubstr("not a JSON value: column 11: byte 0xe9 is no UTF-8"));
  EXPECT_THAT(error("{\"vector\":[1e999]}"), HasSubstr("line 3: not a JSON value: "));
  EXPECT_THAT(error("\xef\xbb\xbf{\"vector\":[1]}"), HasSubstr("line 3: not a JSON value: column 1: U+FEFF"));
  EXPECT_THAT(error("[1]"), HasSubstr("line 3: field 'row' is [1]"));
  EXPECT_THAT(error("{\"id\":1}"), HasSubstr("field 'vector' is absent"));
  EXPECT_THAT(error("{\"vector\":[]}"), HasSubstr("field 'vector' is []"));
  EXPECT_THAT(error("{\"vector\":[1,\"a\"]}"), HasSubstr("field 'vector[1]' is \"a\""));
  EXPECT_THAT(error("{\"vector\":[1e39]}"), HasSubstr("field 'vector[0]' is 1e+39"));
  EXPECT_THAT(error("{\"vector\":[1],\"id\":-1}"), HasSubstr("field 'id' is -1"));
  EXPECT_THAT(error("{\"vector\":[1],\"id\":\"\"}"), HasSubstr("field 'id'"));
  EXPECT_THAT(error("{\"vector\":[1],\"payload\":3}"), HasSubstr("field 'payload' is 3"));
  for (const char* generation : {"0", "-1", "1.5", "\"1\"", "null", "4294967296", "18446744073709551615"}) {
    EXPECT_THAT(error(StrCat("{\"vector\":[1],\"generation\":", generation, "}")),
                HasSubstr(StrCat("field 'generation' is ", generation, "; allowed: an integer, 1 .. 4294967295")));
  }
  EXPECT_THAT(error(std::string(100'000, '[')), HasSubstr("field 'nesting'"));
}

TEST_F(Files, AFileMayBeginWithAByteOrderMarkAndAnOldPayloadLosesIts) {
  const auto rows = ReadAll(Put("mark.jsonl", "\xef\xbb\xbf{\"vector\":[1]}\n"));
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(rows->size(), 1u);
  EXPECT_EQ((*ReadIds(Put("mark.txt",
                          "\xef\xbb\xbf"
                          "cat\n")))[0]
                .id->name(),
            "cat");
  ASSERT_TRUE(Write(folder_ / "old.jsonl", {RowOf({1}, "a", "\xef\xbb\xbf{\"k\":1}")}).ok());
  const auto read = ReadAll(folder_ / "old.jsonl");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*(*read)[0].payload_json, "{\"k\":1}");
}

TEST_F(Files, UnknownFieldsAreRefusedByNameWhereAskedFor) {
  Row row;
  const std::string line = R"({"id":"a","vector":[1,2],"metadata":{"k":1}})";
  EXPECT_TRUE(ParseJsonRow(line, {}, &row).ok());
  const ReadOptions strict = {.payload_fields = {}, .refuse_unknown = true};
  EXPECT_THAT(
      MessageOf(ParseJsonRow(line, strict, &row)),
      AllOf(HasSubstr("\"metadata\"' is unknown"), HasSubstr("--payload-fields"), HasSubstr("--ignore-fields")));
  EXPECT_TRUE(ParseJsonRow(R"({"id":1,"generation":1,"vector":[1],"payload":{}})", strict, &row).ok());
  EXPECT_FALSE(ParseIdLine(R"({"id":1,"class":"cat"})", strict, &row).ok());
  EXPECT_FALSE(ParseIdLine(R"({"id":1,})", strict, &row).ok()) << "no name, but an object with a mistake";
  const ReadOptions mapped = {.payload_fields = {"metadata"}, .refuse_unknown = true};
  ASSERT_TRUE(ParseJsonRow(line, mapped, &row).ok());
  EXPECT_EQ(*row.payload_json, R"({"metadata":{"k":1}})");
}

TEST_F(Files, ATextStandsInPlaceOfAVectorWhereItsFieldIsNamed) {
  Row row;
  const ReadOptions options = {.payload_fields = {}, .refuse_unknown = true, .text_field = "body"};
  ASSERT_TRUE(ParseJsonRow(R"({"id":"a","body":"words","payload":{"k":1}})", options, &row).ok());
  EXPECT_EQ(row.text, "words");
  EXPECT_TRUE(row.vector.empty());
  Row other = row;
  other.text = "other words";
  EXPECT_NE(AddToChecksum(other, 0), AddToChecksum(row, 0));
  for (const char* const line : {R"({"id":"a"})", R"({"id":"a","body":""})", R"({"id":"a","body":1})",
                                 R"({"id":"a","body":"x","vector":[1]})"}) {
    EXPECT_THAT(MessageOf(ParseJsonRow(line, options, &row)), HasSubstr("--text-field")) << line;
  }
}

TEST_F(Files, PayloadFieldsMakeAPayload) {
  const auto rows = ReadAll(Put("x.jsonl", R"({"vector":[1],"id":"a","class":"cat","year":2020,"junk":1})"),
                            {{"class", "year", "none"}});
  ASSERT_TRUE(rows.ok());
  EXPECT_EQ(*(*rows)[0].payload_json, R"({"class":"cat","year":2020})");
}

TEST_F(Files, IdsComeFromNpyJsonOrPlainText) {
  const auto text = ReadIds(Put("ids.txt", "cat one\n7\n\"7\"\n{\"id\":\"x\",\"payload\":{\"a\":1}}\r\n"));
  ASSERT_TRUE(text.ok()) << text.status();
  ASSERT_EQ(text->size(), 4u);
  EXPECT_EQ((*text)[0].id->name(), "cat one");
  EXPECT_EQ((*text)[1].id->number(), 7u);
  EXPECT_EQ((*text)[2].id->name(), "7");
  EXPECT_EQ((*text)[3].payload_json, R"({"a":1})");
  const auto sample = ReadIds(
      Put("sample.json", "{\n \"items\": [{\"id\": 7, \"sequence\": 3, \"generation\": 1}, {\"id\": \"x\"}]\n}\n"));
  ASSERT_TRUE(sample.ok()) << sample.status();
  ASSERT_EQ(sample->size(), 2u);
  EXPECT_EQ((*sample)[0].id->number(), 7u);
  EXPECT_EQ((*sample)[0].generation, 0u) << "the generation of a sampled item is an older one";
  EXPECT_EQ((*sample)[1].id->name(), "x");
  EXPECT_THAT(
      ErrorOf(ReadIds(Put("bad.json", R"({"items": [{"id": 1}, {"id": []}]})")), absl::StatusCode::kInvalidArgument),
      testing::HasSubstr("bad.json' items[1]"));
  EXPECT_EQ(ReadIds(Put("lines.json", "{\"id\":\"x\"}\n7\n"))->size(), 2u) << "a .json file of lines is as any other";
  const auto npy = ReadIds(Put("ids.npy", EncodeNpy(NpyType::kUint8, {2}, "\x01\x02")));
  ASSERT_TRUE(npy.ok()) << npy.status();
  EXPECT_EQ((*npy)[1].id->number(), 2u);
  EXPECT_EQ(ReadIds(Put("f.npy", EncodeNpy(NpyType::kFloat32, {1}, std::string(4, '\0')))).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(MessageOf(ReadIds(Put("generation.txt", "{\"id\":1,\"generation\":true}\n")).status()),
              HasSubstr("line 1: field 'generation' is true"));
  EXPECT_THAT(MessageOf(ReadIds(Put("neg.npy", EncodeNpy(NpyType::kInt8, {1}, "\xff"))).status()),
              HasSubstr("row 0' is -1"));
}

TEST_F(Files, WritersNameTheRowThatDoesNotFit) {
  EXPECT_THAT(MessageOf(Write(folder_ / "x.npy", {RowOf({1}, "a", ""), RowOf({1, 2}, "b", "")})),
              HasSubstr("field 'row 1 dimension' is 2; allowed: 1"));
  EXPECT_THAT(MessageOf(Write(folder_ / "x.bvecs", {RowOf({1.5f}, "a", "")})),
              HasSubstr("field 'row 0 vector[0]' is 1.5; allowed: integers 0 .. 255"));
}

TEST(ImportState, ReadsBackAndNamesWhatIsWrong) {
  for (const int64_t row : {int64_t{0}, int64_t{15}, kImportRowMax}) {
    const auto back = ParseImportState(ImportStateText({row, "shop", "a \"b\".npy", UINT32_MAX, 7}), "s");
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(back->next_row, row);
    EXPECT_EQ(back->collection, "shop");
    EXPECT_EQ(back->file, "a \"b\".npy");
    EXPECT_EQ(back->generation, UINT32_MAX);
    EXPECT_EQ(back->rows_crc32c, 7u);
  }
  const std::string deep = "{\"next_row\":" + std::string(100'000, '[') + std::string(100'000, ']') + "}";
  for (const std::string& text : {std::string(), std::string("{\"next_row\":"), std::string("[3]"), deep}) {
    const absl::Status status = ParseImportState(text, "dir/state.json").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << text.substr(0, 40);
    EXPECT_THAT(MessageOf(status), HasSubstr("'dir/state.json' is no state file of an import"));
  }
  for (const char* value : {"-1", "1.5", "\"3\"", "18446744073709551615", "4611686018427387905"}) {
    const absl::Status status = ParseImportState(StrCat("{\"next_row\":", value, "}"), "dir/state.json").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << value;
    EXPECT_THAT(MessageOf(status), HasSubstr(StrCat("field 'dir/state.json: next_row' is ", value,
                                                    "; allowed: a whole number, 0 .. 461168")));
  }
}

TEST(ImportState, OfAnOlderVersionOrOfAnotherImportIsRefused) {
  const absl::Status older = ParseImportState("{\"next_row\":15}", "s").status();
  EXPECT_EQ(older.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(MessageOf(older), HasSubstr("go on with --start 15"));
  const char* const number = R"({"next_row":1,"collection":2,"file":"","generation":0,"rows_crc32c":0})";
  EXPECT_THAT(MessageOf(ParseImportState(number, "s").status()),
              HasSubstr("field 's: collection' is 2; allowed: a text"));
  const ImportState state = {15, "shop", "a.npy", 2, 7};
  EXPECT_TRUE(CheckSameTarget(state, "shop", 2, "s").ok());
  const absl::Status elsewhere = CheckSameTarget(state, "store", 2, "s");
  EXPECT_EQ(elsewhere.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(MessageOf(elsewhere), HasSubstr("its collection is 'shop', this one's is 'store'"));
  EXPECT_THAT(MessageOf(CheckSameTarget(state, "shop", 0, "s")), HasSubstr("its --generation is 2, this one's is 0"));
}

TEST(ImportState, TheChecksumTellsRowsAndTheirOrderApart) {
  const Row base = RowOf({1, 2}, "7", "{}");
  std::vector<Row> others = {RowOf({2, 1}, "7", "{}"), RowOf({1, 2}, "\"7\"", "{}"), RowOf({1, 2}, "7", ""),
                             RowOf({1, 2, 0}, "7", "{}"), base};
  others.back().generation = 1;
  for (const Row& other : others) {
    EXPECT_NE(AddToChecksum(other, 0), AddToChecksum(base, 0));
    EXPECT_NE(AddToChecksum(other, AddToChecksum(base, 0)), AddToChecksum(base, AddToChecksum(other, 0)));
  }
}

TEST(ProbeLines, AProbeIsReadAndWhatIsWrongIsNamed) {
  const auto probe = ParseProbeLine(
      R"({"vectors": {"1": [0.5, 1], "3": [2]}, "relevant": [7, "cat"], "item": "me", "image": "a.png"})");
  ASSERT_TRUE(probe.ok()) << probe.status();
  ASSERT_EQ(probe->probe.vectors_size(), 2);
  EXPECT_EQ(probe->probe.vectors(1).generation(), 3u);
  EXPECT_EQ(probe->probe.vectors(0).vector().floats().values(0), 0.5f);
  EXPECT_EQ(probe->probe.relevant(1).name(), "cat");
  EXPECT_EQ(probe->probe.item().name(), "me");
  EXPECT_EQ(probe->image, "a.png");
  EXPECT_EQ(ParseProbeLine(R"({"text": "words"})")->probe.input().text(), "words");
  EXPECT_EQ(ParseProbeLine(R"({"label": 3})")->probe.label().integer(), 3);
  EXPECT_EQ(ParseProbeLine(R"({"label": true})")->probe.label().boolean(), true);
  for (const auto& [line, text] :
       std::vector<std::pair<std::string, std::string>>{{"[1]", "a JSON object"},
                                                        {"{", "not a JSON value: column 2"},
                                                        {R"({"labels": 3})", "field 'labels' is unknown"},
                                                        {R"({"label": [1]})", "field 'label'"},
                                                        {R"({"text": 3})", "field 'text'"},
                                                        {R"({"text": "a", "image": "b"})", "field 'image'"},
                                                        {R"({"vectors": {"0": [1]}})", "field 'vectors.0'"},
                                                        {R"({"vectors": {"1": [1, "x"]}})", "field 'vectors.1[1]'"},
                                                        {R"({"vectors": {"1": [1e300]}})", "within float32"},
                                                        {R"({"relevant": 3})", "field 'relevant'"},
                                                        {std::string(100'000, '['), "nesting"}}) {
    const absl::Status status = ParseProbeLine(line).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << line.substr(0, 40);
    EXPECT_THAT(MessageOf(status), HasSubstr(text));
  }
}

TEST(ItemIds, TextsReadBack) {
  for (const std::string text :
       {"7", "\"7\"", "007", "cat", "a b", "18446744073709551615", "18446744073709551616", "-1"}) {
    const auto id = ParseItemId(text);
    ASSERT_TRUE(id.ok()) << text;
    EXPECT_EQ(ItemIdText(*id), text);
  }
  EXPECT_EQ(ParseItemId("18446744073709551615")->number(), UINT64_MAX);
  EXPECT_EQ(ParseItemId("18446744073709551616")->name(), "18446744073709551616") << "beyond uint64: a name";
  EXPECT_FALSE(ParseItemId("").ok());
  EXPECT_FALSE(ParseItemId("\"open").ok());
}

}  // namespace
}  // namespace lightcone::cli
