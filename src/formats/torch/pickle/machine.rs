//! The stack machine that a pickle is a program for.

use std::collections::HashMap;

use super::opcode::*;
use super::{Id, Value};

/// The longest name of a class, or of its module.
const MAX_NAME: usize = 256;

/// What a program has left to read, and what it has made so far.
pub(super) struct Machine<'a> {
    rest: &'a [u8],
    values: Vec<Value>,
    stack: Vec<Id>,
    /// Heights of the stack.
    marks: Vec<usize>,
    memo: HashMap<u32, Id>,
}

impl<'a> Machine<'a> {
    /// One that has `program` before it.
    pub(super) fn new(program: &'a [u8]) -> Self {
        Self { rest: program, values: Vec::new(), stack: Vec::new(), marks: Vec::new(), memo: HashMap::new() }
    }

    /// All values that the program makes, and which one is its result.
    pub(super) fn run(mut self) -> Result<(Vec<Value>, Id), String> {
        loop {
            match self.take(1)?[0] {
                STOP => {
                    let root = self.pop()?;
                    return Ok((self.values, root));
                }
                PROTO => drop(self.take(1)?),
                FRAME => drop(self.take(8)?),
                opcode => {
                    let is_known = self.literal(opcode)?
                        || self.container(opcode)?
                        || self.object(opcode)?
                        || self.place(opcode)?;
                    if !is_known {
                        return Err(format!("its pickle has an instruction that is not known here: {opcode:#04x}"));
                    }
                }
            }
        }
    }

    /// Numbers, texts and what else stands in the program itself; false if it is none of these.
    fn literal(&mut self, opcode: u8) -> Result<bool, String> {
        let value = match opcode {
            NONE | NEWTRUE | NEWFALSE => Value::Other,
            BININT1 => Value::Int(self.take(1)?[0].into()),
            BININT2 => Value::Int(u16::from_le_bytes(self.array()?).into()),
            BININT => Value::Int(i32::from_le_bytes(self.array()?).into()),
            LONG1 => self.long()?,
            BINFLOAT => {
                self.take(8)?;
                Value::Other
            }
            SHORT_BINUNICODE | SHORT_BINSTRING => self.text(1)?,
            BINUNICODE | BINSTRING => self.text(4)?,
            BINUNICODE8 => self.text(8)?,
            SHORT_BINBYTES => self.bytes(1)?,
            BINBYTES | LONG4 => self.bytes(4)?,
            BINBYTES8 | BYTEARRAY8 => self.bytes(8)?,
            _ => return Ok(false),
        };
        self.push(value);
        Ok(true)
    }

    /// A number of any length; none that counts here is longer than 8 bytes.
    fn long(&mut self) -> Result<Value, String> {
        let bytes = self.counted(1)?;
        let is_negative = bytes.last().is_some_and(|last| last & 0x80 != 0);
        let mut whole = [if is_negative { 0xff } else { 0 }; 8];
        let number = whole.get_mut(..bytes.len()).map(|low| low.copy_from_slice(bytes));
        Ok(number.map_or(Value::Other, |()| Value::Int(i64::from_le_bytes(whole))))
    }

    /// A text whose length is a number of so many bytes.
    fn text(&mut self, bytes: usize) -> Result<Value, String> {
        Ok(Value::Text(String::from_utf8_lossy(self.counted(bytes)?).into_owned()))
    }

    /// Bytes whose number is one of so many bytes: of no interest.
    fn bytes(&mut self, bytes: usize) -> Result<Value, String> {
        self.counted(bytes)?;
        Ok(Value::Other)
    }

    /// Tuples, lists, dictionaries and sets; false if it is none of these.
    fn container(&mut self, opcode: u8) -> Result<bool, String> {
        match opcode {
            EMPTY_TUPLE | EMPTY_LIST => self.push(Value::Sequence(Vec::new())),
            TUPLE | LIST => {
                let parts = self.above_mark()?;
                self.push(Value::Sequence(parts));
            }
            TUPLE1 | TUPLE2 | TUPLE3 => {
                let count = usize::from(opcode - TUPLE1) + 1;
                let parts = self.above(self.stack.len().checked_sub(count).ok_or_else(ends_early)?)?;
                self.push(Value::Sequence(parts));
            }
            APPEND | APPENDS => {
                let parts = if opcode == APPEND { vec![self.pop()?] } else { self.above_mark()? };
                if let Value::Sequence(all) = self.top()? {
                    all.extend(parts);
                }
            }
            EMPTY_DICT => self.push(Value::Dict(Vec::new())),
            DICT => {
                let parts = self.above_mark()?;
                self.push(Value::Dict(pairs(&parts)));
            }
            SETITEM | SETITEMS => {
                let parts = if opcode == SETITEM {
                    self.above(self.stack.len().saturating_sub(2))?
                } else {
                    self.above_mark()?
                };
                if let Value::Dict(all) = self.top()? {
                    all.extend(pairs(&parts));
                }
            }
            EMPTY_SET => self.push(Value::Other),
            ADDITEMS => drop(self.above_mark()?),
            FROZENSET => {
                self.above_mark()?;
                self.push(Value::Other);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Classes and functions, what calls of them give, and what lies outside; false if it is none of these.
    fn object(&mut self, opcode: u8) -> Result<bool, String> {
        match opcode {
            GLOBAL => {
                let (module, name) = (self.line()?, self.line()?);
                self.push(Value::Global(format!("{module}.{name}")));
            }
            STACK_GLOBAL => {
                let (name, module) = (self.pop()?, self.pop()?);
                let (Value::Text(module), Value::Text(name)) = (&self.values[module], &self.values[name]) else {
                    return Err("a class has no name".into());
                };
                // each may be used again and again
                if module.len().max(name.len()) > MAX_NAME {
                    return Err("its pickle is damaged: the name of a class is too long".into());
                }
                self.push(Value::Global(format!("{module}.{name}")));
            }
            BINPERSID => {
                let id = self.pop()?;
                self.push(Value::Outside(id));
            }
            // what is called is called with a tuple
            REDUCE | NEWOBJ => {
                let (arguments, called) = (self.pop()?, self.pop()?);
                let is_dict = matches!(&self.values[called], Value::Global(name) if name == "collections.OrderedDict");
                self.push(if is_dict { Value::Dict(Vec::new()) } else { Value::Call(called, arguments) });
            }
            // with arguments by name
            NEWOBJ_EX => {
                let (_, arguments, called) = (self.pop()?, self.pop()?, self.pop()?);
                self.push(Value::Call(called, arguments));
            }
            // attributes, such as a state dict's `_metadata`
            BUILD => drop(self.pop()?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// What moves values on the stack and in the memo; false if it is none of these.
    fn place(&mut self, opcode: u8) -> Result<bool, String> {
        match opcode {
            MARK => self.marks.push(self.stack.len()),
            POP => drop(self.pop()?),
            POP_MARK => drop(self.above_mark()?),
            DUP => {
                let top = self.top_id()?;
                self.stack.push(top);
            }
            BINPUT | LONG_BINPUT | MEMOIZE => {
                let number = match opcode {
                    BINPUT => self.take(1)?[0].into(),
                    LONG_BINPUT => u32::from_le_bytes(self.array()?),
                    _ => u32::try_from(self.memo.len()).map_err(|_| ends_early())?,
                };
                let top = self.top_id()?;
                self.memo.insert(number, top);
            }
            BINGET | LONG_BINGET => {
                let number = if opcode == BINGET { self.take(1)?[0].into() } else { u32::from_le_bytes(self.array()?) };
                let known = self.memo.get(&number).ok_or("it refers to a value that it has not made")?;
                self.stack.push(*known);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn push(&mut self, value: Value) {
        self.stack.push(self.values.len());
        self.values.push(value);
    }

    fn pop(&mut self) -> Result<Id, String> {
        // what lies below a mark is not yet to be had
        let floor = self.marks.last().copied().unwrap_or(0);
        if self.stack.len() > floor { self.stack.pop().ok_or_else(ends_early) } else { Err(ends_early()) }
    }

    fn top_id(&self) -> Result<Id, String> {
        self.stack.last().copied().ok_or_else(ends_early)
    }

    fn top(&mut self) -> Result<&mut Value, String> {
        let top = self.top_id()?;
        Ok(&mut self.values[top])
    }

    fn above(&mut self, height: usize) -> Result<Vec<Id>, String> {
        if height > self.stack.len() { Err(ends_early()) } else { Ok(self.stack.split_off(height)) }
    }

    fn above_mark(&mut self) -> Result<Vec<Id>, String> {
        let mark = self.marks.pop().ok_or_else(ends_early)?;
        self.above(mark)
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or_else(ends_early)?;
        self.rest = rest;
        Ok(taken)
    }

    /// As many bytes as a number of so many bytes before them says.
    fn counted(&mut self, bytes: usize) -> Result<&'a [u8], String> {
        let mut length = [0; 8];
        length[..bytes].copy_from_slice(self.take(bytes)?);
        self.take(usize::try_from(u64::from_le_bytes(length)).unwrap_or(usize::MAX))
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        Ok(self.take(N)?.try_into().expect("as many as were asked for"))
    }

    fn line(&mut self) -> Result<String, String> {
        let end = self.rest.iter().position(|&byte| byte == b'\n').ok_or_else(ends_early)?;
        let line = self.take(end + 1)?;
        Ok(String::from_utf8_lossy(&line[..end]).into_owned())
    }
}

/// Keys and values that follow each other.
fn pairs(parts: &[Id]) -> Vec<(Id, Id)> {
    parts.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect()
}

fn ends_early() -> String {
    "its pickle is damaged: it ends early, or lacks a value".into()
}
