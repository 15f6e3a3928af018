#include "cli/admin/cluster_file.h"

#include <gtest/gtest.h>

#include "server/json_text.h"

namespace geminga::admin_cli {
namespace {

std::string parsed(const std::string& text) {
  const auto found = parse_cluster_file(text, "c.yaml");
  return found ? to_json(*found) : found.status().message();
}

TEST(ClusterFile, HoldsTheMembersOfACluster) {
  EXPECT_EQ(parsed("serviceUrl: http://a:8080\n# a comment\nbrokerServiceUrl: 'pulsar://a:6650'\n"
                   "brokerClientTlsEnabled: true\nlistenerName:\npeerClusterNames: [b, c]\n"),
            R"({"serviceUrl":"http://a:8080","brokerServiceUrl":"pulsar://a:6650",)"
            R"("brokerClientTlsEnabled":true,"peerClusterNames":["b","c"]})");
}

TEST(ClusterFile, SaysWhichLineIsWrong) {
  EXPECT_EQ(parsed("serviceUrl: a\nservice-url: b\n"),
            "c.yaml, line 2: service-url is no member of a cluster");
  EXPECT_EQ(parsed("brokerClientTlsEnabled: perhaps\n"),
            "c.yaml, line 1: brokerClientTlsEnabled is not true or false");
  EXPECT_EQ(parsed("\nserviceUrl: [a]\n"), "c.yaml, line 2: serviceUrl is not a text");
  EXPECT_EQ(parsed("just words"), "c.yaml: holds no \"member: value\" lines");
  EXPECT_TRUE(parsed("a: [\n").starts_with("c.yaml, line ")) << parsed("a: [\n");
}

TEST(ClusterFile, NamesAFileThatIsNotThere) {
  const auto missing = read_cluster_file("/nowhere/c.yaml");
  EXPECT_EQ(missing.status().message(), "cannot read /nowhere/c.yaml");
}

}  // namespace
}  // namespace geminga::admin_cli
