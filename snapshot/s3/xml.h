// The few elements of S3's answers that a client needs, taken out of the text. No parser of XML: elements of one name
// do not stand in each other there. Threads: pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lightcone {

// The content of every element `name`, as it stands.
std::vector<std::string_view> XmlElements(std::string_view xml, std::string_view name);

// The text of the first element `name`, with entities decoded; empty when there is none.
std::string XmlText(std::string_view xml, std::string_view name);

}  // namespace lightcone
