package commands

import (
	"encoding/json"
	"fmt"
)

// notNil writes an absent map as an empty one.
func notNil(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

// onlyIf is a column that is NULL unless the condition holds.
func onlyIf[T any](condition bool, value T) *T {
	if !condition {
		return nil
	}
	return &value
}

// encodeJSON is for values that always encode, such as texts, numbers and times.
func encodeJSON(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("encode %T: %v", v, err))
	}
	return string(data)
}
