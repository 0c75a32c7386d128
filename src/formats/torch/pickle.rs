//! The part of Python's pickle format (protocols 2 to 5) that `torch.save` writes, read without running anything: a
//! call of a Python function is kept as what it is, and whoever reads decides which ones are known.
//!
//! Opcodes are those of CPython's `Lib/pickletools.py`.

use std::collections::HashMap;

/// The longest pickle that is read: a state dict takes some 200 bytes for each tensor, and each byte may become a
/// value.
pub(super) const MAX_BYTES: u64 = 8 << 20;
/// The longest name of a class, or of its module.
const MAX_NAME: usize = 256;

/// Number of a value.
pub(super) type Id = usize;

/// A Python value; what it consists of goes by number.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Value {
    /// `None`, and what is of no interest.
    Other,
    Int(i64),
    Text(String),
    /// Tuples and lists.
    Sequence(Vec<Id>),
    Dict(Vec<(Id, Id)>),
    /// A class or function: `module.name`.
    Global(String),
    /// Something that lies outside of the pickle.
    Outside(Id),
    /// What the first one, called with the second one, would give.
    Call(Id, Id),
}

/// What a pickle contains.
#[derive(Debug)]
pub(super) struct Pickle {
    values: Vec<Value>,
    root: Id,
}

impl Pickle {
    /// Reads a pickle.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, String> {
        let mut machine =
            Machine { rest: bytes, values: Vec::new(), stack: Vec::new(), marks: Vec::new(), memo: HashMap::new() };
        loop {
            if let Some(root) = machine.step()? {
                return Ok(Self { values: machine.values, root });
            }
        }
    }

    /// What the whole pickle is.
    pub(super) fn root(&self) -> &Value {
        &self[self.root]
    }
}

impl std::ops::Index<Id> for Pickle {
    type Output = Value;

    fn index(&self, id: Id) -> &Value {
        &self.values[id]
    }
}

/// The stack machine that a pickle is a program for.
struct Machine<'a> {
    rest: &'a [u8],
    values: Vec<Value>,
    stack: Vec<Id>,
    /// Heights of the stack.
    marks: Vec<usize>,
    memo: HashMap<u32, Id>,
}

impl<'a> Machine<'a> {
    /// Carries out one instruction; the result, if it was the last one.
    fn step(&mut self) -> Result<Option<Id>, String> {
        let opcode = self.take(1)?[0];
        match opcode {
            b'.' => return self.pop().map(Some),
            // PROTO and FRAME
            0x80 => drop(self.take(1)?),
            0x95 => drop(self.take(8)?),
            b'N' | 0x88 | 0x89 => self.push(Value::Other),
            // floats, of 8 bytes
            b'G' => {
                self.take(8)?;
                self.push(Value::Other);
            }
            b'K' | b'M' | b'J' => {
                let number = match opcode {
                    b'K' => i64::from(self.take(1)?[0]),
                    b'M' => i64::from(u16::from_le_bytes(self.array()?)),
                    _ => i64::from(i32::from_le_bytes(self.array()?)),
                };
                self.push(Value::Int(number));
            }
            // LONG1: none that counts here is longer than 8 bytes
            0x8a => {
                let bytes = self.counted(1)?;
                let negative = bytes.last().is_some_and(|last| last & 0x80 != 0);
                let mut whole = [if negative { 0xff } else { 0 }; 8];
                let number = whole.get_mut(..bytes.len()).map(|low| low.copy_from_slice(bytes));
                self.push(number.map_or(Value::Other, |()| Value::Int(i64::from_le_bytes(whole))));
            }
            // BINUNICODE and its short and long forms; Python 2's strings
            b'X' | 0x8c | 0x8d | b'T' | b'U' => {
                let text = self.counted(if opcode == 0x8d {
                    8
                } else if matches!(opcode, b'X' | b'T') {
                    4
                } else {
                    1
                })?;
                self.push(Value::Text(String::from_utf8_lossy(text).into_owned()));
            }
            // BINBYTES, its short and long forms, and BYTEARRAY8; LONG4
            b'B' | b'C' | 0x8e | 0x96 | 0x8b => {
                self.counted(if matches!(opcode, 0x8e | 0x96) {
                    8
                } else if opcode == b'C' {
                    1
                } else {
                    4
                })?;
                self.push(Value::Other);
            }
            // sets: EMPTY_SET, ADDITEMS, FROZENSET
            0x8f => self.push(Value::Other),
            0x90 => drop(self.above_mark()?),
            0x91 => {
                self.above_mark()?;
                self.push(Value::Other);
            }
            // NEWOBJ_EX, with arguments by name
            0x92 => {
                let (_, arguments, called) = (self.pop()?, self.pop()?, self.pop()?);
                self.push(Value::Call(called, arguments));
            }
            b'}' => self.push(Value::Dict(Vec::new())),
            b']' | b')' => self.push(Value::Sequence(Vec::new())),
            b'(' => self.marks.push(self.stack.len()),
            b't' | b'l' => {
                let parts = self.above_mark()?;
                self.push(Value::Sequence(parts));
            }
            0x85..=0x87 => {
                let count = usize::from(opcode - 0x84);
                let parts = self.above(self.stack.len().checked_sub(count).ok_or_else(ends_early)?)?;
                self.push(Value::Sequence(parts));
            }
            b'a' | b'e' => {
                let parts = if opcode == b'a' { vec![self.pop()?] } else { self.above_mark()? };
                if let Value::Sequence(all) = self.top()? {
                    all.extend(parts);
                }
            }
            b's' | b'u' | b'd' => {
                let parts =
                    if opcode == b's' { self.above(self.stack.len().saturating_sub(2))? } else { self.above_mark()? };
                if opcode == b'd' {
                    self.push(Value::Dict(Vec::new()));
                }
                if let Value::Dict(all) = self.top()? {
                    all.extend(parts.chunks_exact(2).map(|pair| (pair[0], pair[1])));
                }
            }
            // GLOBAL and STACK_GLOBAL
            b'c' => {
                let (module, name) = (self.line()?, self.line()?);
                self.push(Value::Global(format!("{module}.{name}")));
            }
            0x93 => {
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
            b'Q' => {
                let id = self.pop()?;
                self.push(Value::Outside(id));
            }
            // REDUCE and NEWOBJ: what is called is called with a tuple
            b'R' | 0x81 => {
                let (arguments, called) = (self.pop()?, self.pop()?);
                let is_dict = matches!(&self.values[called], Value::Global(name) if name == "collections.OrderedDict");
                self.push(if is_dict { Value::Dict(Vec::new()) } else { Value::Call(called, arguments) });
            }
            // BUILD: attributes, such as a state dict's `_metadata`
            b'b' | b'0' => drop(self.pop()?),
            b'1' => drop(self.above_mark()?),
            b'2' => {
                let top = *self.stack.last().ok_or_else(ends_early)?;
                self.stack.push(top);
            }
            // BINPUT, LONG_BINPUT, MEMOIZE
            b'q' | b'r' | 0x94 => {
                let number = match opcode {
                    b'q' => u32::from(self.take(1)?[0]),
                    b'r' => u32::from_le_bytes(self.array()?),
                    _ => u32::try_from(self.memo.len()).map_err(|_| ends_early())?,
                };
                let top = *self.stack.last().ok_or_else(ends_early)?;
                self.memo.insert(number, top);
            }
            b'h' | b'j' => {
                let number =
                    if opcode == b'h' { u32::from(self.take(1)?[0]) } else { u32::from_le_bytes(self.array()?) };
                let known = self.memo.get(&number).ok_or("it refers to a value that it has not made")?;
                self.stack.push(*known);
            }
            unknown => return Err(format!("its pickle has an instruction that is not known here: {unknown:#04x}")),
        }
        Ok(None)
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

    fn top(&mut self) -> Result<&mut Value, String> {
        let top = *self.stack.last().ok_or_else(ends_early)?;
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

fn ends_early() -> String {
    "its pickle is damaged: it ends early, or lacks a value".into()
}
