#include "trainer/data/mat_file.h"

#include "tests/trainer/paper_files.h"

namespace lightcone {
namespace {

using namespace testing_data;  // NOLINT: the helpers of these tests
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr auto kLoss = absl::StatusCode::kDataLoss;
constexpr auto kMissing = absl::StatusCode::kNotFound;

TEST(MatFile, ReadsNumbersTextCellsAndStructsPlainAndCompressed) {
  const std::string doubles("\x00\x00\x00\x00\x00\x00\xf8\x3f\x00\x00\x00\x00\x00\x00\x00\xc0", 16);  // 1.5, -2
  const std::string numbers = MatMatrix(6, {2, 1}, "numbers", MatElement(9, doubles));
  for (const bool packed : {false, true}) {
    std::string bytes = MatHeader();
    for (const std::string& variable :
         {numbers, MatText("hello", "text"), CarClasses({"a", "bc"}), CarAnnotations({{"x.jpg", 3, 1}})}) {
      bytes += packed ? MatCompressed(variable) : variable;
    }
    const auto variables = ParseMat(bytes, "x.mat");
    ASSERT_TRUE(variables.ok()) << MessageOf(variables.status());
    EXPECT_THAT(variables->at("numbers").numbers, ElementsAre(1.5, -2));
    EXPECT_THAT(variables->at("numbers").shape, ElementsAre(2, 1));
    EXPECT_EQ(variables->at("text").text, "hello");
    EXPECT_EQ(variables->at("class_names").items[1].text, "bc");
    const MatArray& cars = variables->at("annotations");
    EXPECT_THAT(cars.fields, ElementsAre("relative_im_path", "class", "test"));
    ASSERT_EQ(cars.items.size(), 3u);
    EXPECT_EQ(cars.items[0].text, "x.jpg");
    EXPECT_THAT(cars.items[1].numbers, ElementsAre(3));
  }
}

TEST(MatFile, EveryDefectIsNamed) {
  const std::string header = MatHeader();
  const auto status = [](const std::string& bytes) { return ParseMat(bytes, "x.mat").status(); };
  const auto message = [&](const std::string& bytes) { return MessageOf(status(bytes)); };
  EXPECT_EQ(status("short").code(), kLoss);
  EXPECT_THAT(message("\x89HDF\r\n"), HasSubstr("MATLAB 7.3 (HDF5)"));
  EXPECT_THAT(message("MATLAB 7.3 MAT-file"), HasSubstr("MATLAB 7.3"));
  EXPECT_THAT(message(std::string(128, ' ')), HasSubstr("no little-endian MATLAB 5 header"));
  const std::string text = MatText("hello", "text");
  for (size_t cut = 1; cut < text.size(); ++cut) {
    const auto parsed = ParseMat(header + text.substr(0, cut), "x.mat");
    ASSERT_FALSE(parsed.ok()) << cut;
    EXPECT_EQ(parsed.status().code(), kLoss) << cut;
  }
  std::string packed = MatCompressed(text);
  EXPECT_THAT(message(header + packed.substr(0, packed.size() - 6)), HasSubstr("truncated"));
  packed[20] = static_cast<char>(packed[20] ^ 0x55);
  EXPECT_EQ(status(header + packed).code(), kLoss);
  EXPECT_THAT(message(header + MatMatrix(5, {1, 1}, "sparse", "")), HasSubstr("class of an array' is 5"));
  EXPECT_THAT(message(header + MatMatrix(6, {1, 2}, "x", MatElement(2, "a"))), HasSubstr("1 numbers; the shape has 2"));
  EXPECT_THAT(message(header + MatMatrix(1, {1, 2}, "x", MatText("a"))), HasSubstr("truncated: an element needs"));
  EXPECT_THAT(message(header + MatMatrix(6, {-1, 2}, "x", "")), HasSubstr("a side of -1"));
  EXPECT_THAT(message(header + MatElement(9, "12345678")), HasSubstr("a variable of type 9"));
  std::string deep = MatByte(1);
  for (int i = 0; i < 20; ++i) deep = MatMatrix(1, {1, 1}, "", deep);
  EXPECT_THAT(message(header + deep), HasSubstr("nested deeper than 16"));
}

TEST(MatFile, RefusesToInflateABomb) {
  const std::string zeros(size_t{70} << 20, '\0');
  const auto parsed = ParseMat(MatHeader() + MatCompressed(zeros), "x.mat");
  EXPECT_EQ(parsed.status().code(), absl::StatusCode::kResourceExhausted);
}

// Four classes with two images each; the second image of a class tests in the authors' split.
std::vector<Car> WriteCars(const Folder& folder) {
  std::vector<Car> cars;
  for (int label = 1; label <= 4; ++label) {
    for (int i = 0; i < 2; ++i) {
      const std::string path = StrCat("car_ims/", label, i, ".jpg");
      folder.Write(path, ColourPng(20, 40, 10 * label, i, 0));
      cars.push_back({path, label, i});
    }
  }
  return cars;
}

TEST(Cars196, DividesByClassOrByTheAuthorsSplit) {
  const Folder folder;
  const std::vector<Car> cars = WriteCars(folder);
  folder.Write("cars_annos.mat", MatHeader() + MatCompressed(CarAnnotations(cars)) +
                                     MatCompressed(CarClasses({"one", "two", "three", "four"})));
  const auto by_class = OpenDataset("cars@16:" + folder.path(), 1);
  ASSERT_TRUE(by_class.ok()) << MessageOf(by_class.status());
  EXPECT_THAT(by_class->class_names, ElementsAre("one", "two", "three", "four"));
  EXPECT_THAT(by_class->train.labels, ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(by_class->test.labels, ElementsAre(2, 2, 3, 3));
  EXPECT_EQ(by_class->train.height, 16);
  EXPECT_EQ(by_class->train.width, 16);
  EXPECT_EQ(by_class->train.image(2)[0], 20);
  const auto by_authors = OpenDataset("cars-official@16:" + folder.path(), 1);
  ASSERT_TRUE(by_authors.ok()) << MessageOf(by_authors.status());
  EXPECT_THAT(by_authors->train.labels, ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(by_authors->test.image(3)[1], 1);
}

TEST(Cars196, EveryDefectNamesTheAnnotation) {
  const Folder folder;
  const std::string name = "cars@16:" + folder.path(), classes = CarClasses({"a", "b", "c", "d"});
  std::vector<Car> cars = WriteCars(folder);
  ExpectOpenError(name, kMissing, {"cars_annos.mat"});
  const auto write = [&] { folder.Write("cars_annos.mat", MatHeader() + CarAnnotations(cars) + classes); };
  cars[1].label = 9;
  write();
  ExpectOpenError(name, kLoss, {"cars_annos.mat: annotations(2).class' is 9; allowed: a whole number, 1 .. 4"});
  cars[1].label = 1;
  cars[2].path = "../etc/passwd";
  write();
  ExpectOpenError(name, kLoss, {"annotations(3).relative_im_path' is '../etc/passwd'"});
  cars[2].path = "car_ims/none.jpg";
  write();
  ExpectOpenError(name, kMissing, {"car_ims/none.jpg"});
  folder.Write("cars_annos.mat", MatHeader() + classes);
  ExpectOpenError(name, kInvalid, {"annotations' is missing"});
  folder.Write("cars_annos.mat", MatHeader() + CarAnnotations(cars));
  ExpectOpenError(name, kInvalid, {"class_names' is missing"});
}

}  // namespace
}  // namespace lightcone
