// Fetches each URL with net/http as it is, and prints status and body, or the error.
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
)

func main() {
	failed := 0
	for _, url := range os.Args[1:] {
		answer, err := http.Get(url)
		if err != nil {
			fmt.Println(err)
			failed = 1
			continue
		}
		body, err := io.ReadAll(answer.Body)
		fmt.Println(answer.Status, string(body), err)
	}
	os.Exit(failed)
}
