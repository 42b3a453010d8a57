package api

import (
	"net/http"
	"slices"
	"strings"
)

// notEmpty refuses parameters that are given without a value: a filter that is
// left empty by mistake must not select everything.
func notEmpty(r *http.Request, names ...string) error {
	for _, name := range names {
		if given(r, name) && param(r, name) == "" {
			return badParameter(name, "The parameter "+name+" is empty: leave it out to select everything.")
		}
	}
	return nil
}

// family reads the parameters FAMILY.NAME=VALUE by their names; nil without any.
func family(r *http.Request, family string) map[string]string {
	var values map[string]string
	for name, given := range callOf(r).query {
		if label, ok := strings.CutPrefix(name, family+"."); ok {
			if values == nil {
				values = make(map[string]string)
			}
			values[label] = given[0]
		}
	}
	return values
}

// wordList reads a parameter that is repeated or separated by commas, each of
// its words one of the list.
func wordList[T ~string](r *http.Request, name string, list []T) ([]T, error) {
	var words []T
	for _, value := range callOf(r).query[name] {
		for _, word := range strings.Split(value, ",") {
			if !slices.Contains(list, T(word)) {
				return nil, badParameter(name, "There is no "+name+" "+quote([]byte(word))+".")
			}
			words = append(words, T(word))
		}
	}
	return words, nil
}

// anyWords reads a parameter that is repeated or separated by commas.
func anyWords(r *http.Request, name string) []string {
	var words []string
	for _, value := range callOf(r).query[name] {
		words = append(words, strings.Split(value, ",")...)
	}
	return words
}

// texts turns words of a list into plain ones.
func texts[T ~string](words []T) []string {
	var list []string
	for _, word := range words {
		list = append(list, string(word))
	}
	return list
}
