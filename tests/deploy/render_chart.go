// Prints the objects that the Helm chart makes, by the engine and the functions that Helm itself uses: text/template of
// Go, and Sprig. Of what Helm adds to them it has what our templates call: Release, Values, toYaml and required.
//
//	render_chart CHART RELEASE VALUES.yaml...
//
// The values of later files replace those of earlier ones by their first key; the chart's own come first.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig"
	"sigs.k8s.io/yaml"
)

func toYaml(value interface{}) (string, error) {
	text, err := yaml.Marshal(value)
	return strings.TrimSuffix(string(text), "\n"), err
}

func required(message string, value interface{}) (interface{}, error) {
	if value == nil || value == "" {
		return nil, errors.New(message)
	}
	return value, nil
}

func render(chart, release string, files []string) error {
	values := map[string]interface{}{}
	for _, file := range append([]string{filepath.Join(chart, "values.yaml")}, files...) {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if err := yaml.Unmarshal(text, &values); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	data := map[string]interface{}{"Values": values, "Release": map[string]interface{}{"Name": release}}
	// Helm turns a value that is not there into nothing. Here it is an error: a name that no file of values has.
	engine := template.New("chart").Option("missingkey=error").Funcs(sprig.TxtFuncMap()).Funcs(
		template.FuncMap{"toYaml": toYaml, "required": required})
	templates, err := filepath.Glob(filepath.Join(chart, "templates", "*.yaml"))
	if err != nil {
		return err
	}
	for _, file := range templates {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		parsed, err := engine.New(filepath.Base(file)).Parse(string(text))
		if err != nil {
			return err
		}
		var out bytes.Buffer
		if err := parsed.Execute(&out, data); err != nil {
			return err
		}
		fmt.Printf("---\n%s\n", out.String())
	}
	return nil
}

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "render_chart: usage: render_chart CHART RELEASE VALUES.yaml...")
		os.Exit(2)
	}
	if err := render(os.Args[1], os.Args[2], os.Args[3:]); err != nil {
		fmt.Fprintln(os.Stderr, "render_chart:", err)
		os.Exit(1)
	}
}
