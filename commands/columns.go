package commands

import (
	"encoding/json"
	"fmt"
)

// column picks one column of a batch.
func column[R, T any](rows []R, pick func(R) T) []T {
	values := make([]T, len(rows))
	for i, r := range rows {
		values[i] = pick(r)
	}
	return values
}

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
