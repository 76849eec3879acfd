// CGO_CFLAGS=-Iinclude CGO_LDFLAGS="-Llib -llamina" go run stream.go model.gguf
package main

/*
#include <lamina.h>
#include <stdlib.h>
*/
import "C"

import (
	"errors"
	"fmt"
	"os"
	"unsafe"
)

// check frees the message of an error and returns it.
func check(status C.LaminaStatus, message *C.char) error {
	if status < C.LAMINA_STATUS_MODEL {
		return nil
	}
	defer C.lamina_string_free(message)
	return errors.New(C.GoString(message))
}

func run(path string) error {
	name, options := C.CString(path), C.CString(`{"context": 2048}`)
	defer C.free(unsafe.Pointer(name))
	defer C.free(unsafe.Pointer(options))
	var model *C.LaminaModel
	var request *C.LaminaRequest
	var message *C.char
	status := C.lamina_model_load(name, options, nil, nil, &model, &message)
	if err := check(status, message); err != nil {
		return err
	}
	defer C.lamina_model_free(model)
	asked := C.CString(`{"prompt": "Once upon a time", "max_tokens": 64}`)
	defer C.free(unsafe.Pointer(asked))
	status = C.lamina_submit(model, asked, &request, &message)
	if err := check(status, message); err != nil {
		return err
	}
	defer C.lamina_request_free(request)
	event := C.LaminaEvent{size: C.sizeof_LaminaEvent}
	for {
		status = C.lamina_request_next(request, -1, &event, &message)
		if status != C.LAMINA_STATUS_OK {
			return check(status, message)
		}
		fmt.Print(C.GoStringN(event.text, C.int(event.text_len)))
	}
}

func main() {
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
